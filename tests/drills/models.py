"""Tables that ask for every kind of privacy model, in small regions, so that a rebuild is many releases."""

from __future__ import annotations

from pathlib import Path

REGION_ROWS = 200

MODELS = {
    "k": "privacy: {k: 5}",
    "k-of-individuals": "privacy: {k: 4}\nindividual: ssn",
    "distinct-l": "privacy: {k: 3, l: 3}",
    "k-l": "privacy: {k: 4, l: 2}\nindividual: ssn",
    "alpha-beta": "privacy: {k: 3, alpha: 0.4, beta: 0.6}\nindividual: ssn",
    "r-k": "privacy: {k: 4, r: 0.75, level: 1}",
    "all-at-once": "privacy: {k: 3, l: 2, alpha: 0.4, beta: 0.7, r: 0.85, level: 1}\nindividual: ssn",
}
"""What is written into table.yaml, by the name of the model."""


def ask_for_model(table: Path, model: str) -> None:
    """Writes another model into the example's table.yaml, in small regions, rebuilt when an operator asks."""
    text = table.read_text().replace("privacy: {k: 3}", MODELS[model])
    table.write_text(f"{text}\nlimits: {{transaction_rows_max: {REGION_ROWS}}}\nrebuild: {{drift: never}}\n")
