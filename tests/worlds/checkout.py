"""Where this checkout is, and the example table in it."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATIENTS = ROOT / "examples" / "patients"
