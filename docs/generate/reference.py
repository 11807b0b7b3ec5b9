"""The reference, written from the code: `make reference`, or `python -m docs.generate.reference`.

Whatever is generated here is written by nobody's hand: a test holds the files to what this would write.
"""

from __future__ import annotations

from pathlib import Path

from docs.generate import commands, errors, metrics, settings, states, variables
from streamer.cli.support import help_pages

FOLDER = Path(__file__).resolve().parents[1] / "reference"

PAGES = {
    "commands.md": commands.page,
    "table-yaml.md": settings.page,
    "variables.md": variables.page,
    "metrics.md": metrics.page,
    "errors.md": errors.errors_page,
    "dead-letter-reasons.md": errors.reasons_page,
    "shard-states.md": states.page,
}

HELP = Path(help_pages.__file__).with_name(help_pages.FILE)

NOTE = "<!-- Written by `make reference` from the code: change the code, not this file. -->\n\n"


def pages() -> dict[str, str]:
    """Every page's text, by the name of its file."""
    return {name: NOTE + page() for name, page in PAGES.items()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, "utf-8")
        print(f"docs/reference/{name}")
    HELP.write_text(commands.help_json(), "utf-8")
    print(HELP.name)
