"""Where this checkout is, and the example table in it."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATIENTS = ROOT / "examples" / "patients"


def put_streamer(folder: Path) -> Path:
    """Puts a command `streamer`, which is this checkout's, into a folder, which then belongs on the path."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "streamer"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m streamer.cli.main "$@"\n', "utf-8")
    script.chmod(0o755)
    return folder
