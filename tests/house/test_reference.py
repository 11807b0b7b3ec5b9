"""The reference is what the code says: its files are what `make reference` would write, and nothing lacks words."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from click.testing import CliRunner
from pydantic import BaseModel

from docs.generate import commands, reference
from docs.generate.commands import all_commands
from docs.generate.settings import told
from streamer.cli.main import main
from streamer.table.yaml import shape


def models() -> Iterator[type[BaseModel]]:
    """Every model of table.yaml."""
    for kind in vars(shape).values():
        if isinstance(kind, type) and issubclass(kind, BaseModel) and kind.model_fields:
            yield kind


@pytest.mark.parametrize("name", reference.PAGES)
def test_the_page_is_what_the_code_says(name: str) -> None:
    written = (reference.FOLDER / name).read_text("utf-8")
    assert written == reference.NOTE + reference.PAGES[name](), "`make reference` writes it anew"


def test_the_help_that_is_kept_is_what_the_commands_say() -> None:
    assert reference.HELP.read_text("utf-8") == commands.help_json(), "`make reference` writes it anew"


@pytest.mark.parametrize("columns", [60, 80, 120])
@pytest.mark.parametrize("name", [*dict(all_commands()), "connect", "topics"])
def test_the_help_that_is_kept_looks_like_the_commands_own(name: str, columns: int) -> None:
    """A second --help is more than is kept: the command is imported."""
    said = [
        CliRunner().invoke(main, [*name.split(), *more, "--help"], terminal_width=columns, prog_name="streamer").output
        for more in ([], ["--help"])
    ]
    assert said[0] == said[1] != ""


def test_no_page_is_left_over() -> None:
    assert {path.name for path in reference.FOLDER.iterdir()} == set(reference.PAGES)


def test_every_command_is_in_it() -> None:
    commands = reference.PAGES["commands.md"]()
    assert [name for name, _ in all_commands() if f"\n## streamer {name}\n" not in commands] == []


@pytest.mark.parametrize("model", list(models()), ids=lambda model: model.__name__)
def test_every_setting_of_table_yaml_has_its_words(model: type[BaseModel]) -> None:
    about, sentences = told(model)
    assert about.endswith(".")
    assert set(model.model_fields) - set(sentences) == set()
