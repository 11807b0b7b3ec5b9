"""Tables that ask for every kind of privacy model, in small regions, so that a rebuild is many releases."""

from __future__ import annotations

from pathlib import Path

from worlds.patients import write_table

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


def write_model_table(directory: Path, table_name: str, model: str, form: str = "rows") -> Path:
    """The example's table.yaml with another model and form, in small regions, rebuilt when an operator asks."""
    path = write_table(directory, table_name)
    text = path.read_text().replace("privacy: {k: 3}", MODELS[model]).replace("form: rows", f"form: {form}")
    path.write_text(f"{text}\nlimits: {{transaction_rows_max: {REGION_ROWS}}}\nrebuild: {{drift: never}}\n")
    return path
