"""What published tables give away to somebody who keeps all releases.

`streamer.audit(releases, table)` is `streamer.audit.releases.audit`, whose help says more: releases is a list of
(published, source, index), as `published, index = streamer.anonymize(source, table, return_index=True)` gives them. The
answer prints how many sensitive values can be known for certain, and how good the best guess is.
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
