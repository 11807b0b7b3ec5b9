"""What a report says of itself: when it was made, by which version, from what, and under which table.yaml.

Nothing here is read from a clock or a file: the caller hands it in.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Provenance:
    """made: date and time in words; input_name: of the file, without its folder; settings: the text of table.yaml."""

    made: str
    version: str
    input_name: str
    settings: str
