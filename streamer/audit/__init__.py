"""The audit: finds out what all releases of an anonymous table tell together.

`streamer.audit(releases, table)` calls `streamer.audit.releases.audit`, whose help says more. releases: a list of
(published, source, index), as `published, index = streamer.anonymize(source, table, return_index=True)` gives them.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamer.audit.releases import Audited


__all__: list[str] = []


class AuditRoom(ModuleType):
    """This room, which can be called: whoever imports a module of it makes `streamer.audit` the room."""

    def __call__(self, *arguments: Any, **named: Any) -> Audited:
        from streamer.audit.releases import audit

        return audit(*arguments, **named)


import_module(__name__).__class__ = AuditRoom
