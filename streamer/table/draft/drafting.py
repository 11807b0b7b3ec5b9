"""A whole table drafted from its rows: what `streamer init` writes, and what `init` from Python gives.

A draft guesses types, scales and obvious hierarchies (`streamer.table.draft.columns`), and says in comments what each
guess is made of. Its text holds no value of a row; its hierarchies hold those of categories.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamer.errors import A_PATH, A_TEXT, FLAG, UsageError, require_type
from streamer.shown import plural
from streamer.table.codes import cell_text, is_scalar, source_cells
from streamer.table.draft import yaml_text
from streamer.table.draft.columns import Drafted, drafted, source_key_of
from streamer.table.draft.hints import is_no_header
from streamer.table.draft.identifiers import identified
from streamer.table.encode import require_frame
from streamer.table.files import atomic_writers
from streamer.table.stray_rows import said_of, stray_rows
from streamer.table.yaml import FILE_NAME, require_k

if TYPE_CHECKING:
    import pandas as pd

K_WANTED = 5
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")

Texts = dict[str, list[str]]
"""By column, the texts of its cells."""


@dataclass(frozen=True)
class TableDraft:
    """A guess about every column of a table; texts: by column, of the rows that seem to be data."""

    source: str
    rows: int
    key: str | yaml_text.NearKey | None
    columns: list[Drafted]
    texts: Texts
    stray: dict[int, str]

    @property
    def held(self) -> str:
        """What identifies people in the key."""
        return identified(self.texts[self.key]) if isinstance(self.key, str) else ""

    @property
    def hierarchies(self) -> dict[str, str]:
        """The hierarchy files by name, relative to table.yaml, and their texts."""
        names = yaml_text.hierarchy_names(one.name for one in self.columns if one.hierarchy)
        of = {one.name: one.hierarchy for one in self.columns}
        return {file: yaml_text.hierarchy_text(of[name]) for name, file in names.items()}

    def judged(self, judge: Callable[[Drafted, Sequence[str]], Drafted]) -> TableDraft:
        """The draft with the roles that `judge` gives columns, by their texts. Raises UsageError if none is left."""
        columns = [judge(one, self.texts[one.name]) if one.name in self.texts else one for one in self.columns]
        columns = list(_apart(columns))
        if not any(column.role == "quasi-identifier" for column in columns):
            why = "; ".join(f"{column.name!r}: {column.why}" for column in columns)
            raise UsageError(
                f"{self.source}: no column looks like a quasi-identifier ({why}); write {FILE_NAME} by hand"
            )
        return replace(self, columns=columns)

    def text(self, stem: str, k: int | None = None) -> str:
        """The table.yaml of a table with about this name."""
        name = _NOT_IN_NAMES.sub("-", stem).strip("-._")[:200] or "table"
        k = max(2, min(K_WANTED, self.rows // 2)) if k is None else k
        rows = self.source, self.rows, self.key
        return yaml_text.table_text(name, *rows, k, self.columns, said_of(self.stray), self.held)


def draft_of(frame: pd.DataFrame, source: str, key: str | None = None) -> TableDraft:
    """A draft from rows; source: their name; key: the column that is the key, None: whichever can be.

    Raises UsageError for rows from which nothing can be drafted.
    """
    if is_no_header(list(frame.columns)):
        raise UsageError(
            f"{source}: its first line looks like a row: most of its names are numbers or dates; put a line with"
            " the names of the columns before it"
        )
    cells = {name: source_cells(frame[name]).tolist() for name in frame.columns}
    strange = {name: _strange_of(name, values) for name, values in cells.items() if not all(map(is_scalar, values))}
    texts = {name: list(map(cell_text, values)) for name, values in cells.items() if name not in strange}
    if len(frame) < 2:
        raise UsageError(f"{source}: has {plural(len(frame), 'row')}; a table needs at least two")
    stray = stray_rows(texts)
    texts = {name: [text for i, text in enumerate(cells) if i not in stray] for name, cells in texts.items()}
    source_key = key or source_key_of(texts) or yaml_text.near_key_of(texts)
    if key is not None and (key not in texts or not all(texts[key]) or len(set(texts[key])) < len(texts[key])):
        raise UsageError(
            f"key: {key!r} is not a column with another text or number in every row; name another one, or None:"
            " `anonymize` needs no key"
        )
    columns = [strange[name] if name in strange else drafted(name, texts[name]) for name in cells if name != source_key]
    return TableDraft(source, len(frame), source_key, columns, texts, stray)


def _strange_of(name: str, values: Sequence[object]) -> Drafted:
    """A column with lists, bytes and the like, which is left out."""
    strange = [value for value in values if not is_scalar(value)]
    kinds = ", ".join(sorted({type(value).__name__ for value in strange}))
    why = f"{plural(len(strange), 'row')} with a value that is no text, number, boolean or date ({kinds}): convert it"
    return Drafted(name, "", f"{why} in the source, or in the query, if the column is to be published")


def _apart(columns: list[Drafted]) -> Iterator[Drafted]:
    """The columns; those that would be published under a name that is taken lose their role."""
    taken = {"qi_group"}
    for column in columns:
        ends = (f"{column.name}_lo", f"{column.name}_hi")
        published = {*ends} if column.scale is not None else {column.name} if column.role else set()
        if taken & published:
            yield replace(column, role="", why="would be published under a name that is taken; rename it", hierarchy=())
            continue
        taken |= published
        yield column


def write_files(texts: Mapping[Path, str]) -> None:
    """Writes texts into files, and the folders that they need; all appear together. Raises UsageError."""
    for path in texts:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{path.parent}: cannot be created: {error.strerror}") from None
    with atomic_writers(list(texts), text=True) as opened:
        for file, text in zip(opened, texts.values(), strict=True):
            file.write(text)


# -- from Python ------------------------------------------------------------------------------------------------------

ROLES = ("quasi-identifier", "sensitive", "")
"""The roles that a column may be given; "": it is left out."""


class DraftedTable(dict[str, Any]):
    """A table as settings, which may be edited as a dict; prints as the table.yaml that `write` writes.

    left_out: the columns that are never published, each with the reason, such as that it identifies people.
    """

    def __init__(self, draft: TableDraft, k: int | None) -> None:
        self._text = draft.text("people", k)
        super().__init__(yaml_text.settings_of(self._text))
        for one in draft.columns:
            if one.hierarchy:
                self["columns"][one.name]["hierarchy"] = [list(row) for row in one.hierarchy]
        self.left_out = {one.name: one.why for one in draft.columns if not one.role}
        if isinstance(draft.key, str):
            self.left_out[draft.key] = f"the key{f'; holds {draft.held}' if draft.held else ''}"

    @property
    def text(self) -> str:
        """The table.yaml with its comments; of settings that were edited, without those."""
        return yaml_text.edited(self._text, self._in_files()[0])

    def write(self, folder: str | Path, force: bool = False) -> Path:
        """Writes table.yaml and its hierarchies into a folder; returns it. force: write over files that are there.

        The files of hierarchies hold values of categories: they are as private as the data. Raises UsageError.
        """
        require_type("folder", folder, A_PATH)
        require_type("force", force, FLAG)
        texts = {Path(folder, FILE_NAME): self.text}
        for name, rows in self._in_files()[1].items():
            texts[Path(folder, name)] = yaml_text.hierarchy_text(tuple(tuple(map(str, row)) for row in rows))
        if not force and (there := [path for path in texts if path.exists()]):
            raise UsageError(f"{there[0]}: is there already; name another folder, or say force=True")
        write_files(texts)
        return Path(folder)

    def _in_files(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The settings as a file has them, and the rows of the hierarchies by the names of their files."""
        settings = deepcopy(dict(self))
        columns = settings.get("columns")
        rows = {
            name: one["hierarchy"]
            for name, one in (columns.items() if isinstance(columns, dict) else ())
            if isinstance(one, Mapping) and isinstance(one.get("hierarchy"), list | tuple)
        }
        files = yaml_text.hierarchy_names(rows)
        for name, file in files.items():
            settings["columns"][name]["hierarchy"] = file
        return settings, {files[name]: one for name, one in rows.items()}

    def __repr__(self) -> str:
        return self.text.rstrip("\n")

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.text)}</pre>"


def init(
    frame: pd.DataFrame,
    *,
    key: str | None = None,
    roles: Mapping[str, str] | None = None,
    k: int | None = None,
) -> DraftedTable:
    """A first table for a DataFrame of people, drafted as `streamer init` drafts a table.yaml.

    Types, scales, obvious hierarchies and roles are guessed: look at every line of what is printed. Columns that hold
    names, numbers or addresses of people are left out (`left_out` says why). key: the column that tells rows apart, if
    no other should be taken; it is never published. roles: by column "quasi-identifier" (others may know it of a
    person), "sensitive" (nobody should learn it) or "" (never published), if the guess is wrong. k: at least so many
    rows are alike.

    The answer is a dict that `check`, `compare` and `anonymize` take; edit it, and `write` it into a folder for the
    commands. The frame's index is a column if it has a name.

    Raises UsageError for a frame from which nothing can be drafted, or an argument of the wrong type or value.

    >>> import pandas as pd
    >>> people = {"id": [1, 2, 3, 4], "age": [64, 31, 39, 68], "problem": ["ulcer", "flu", "ulcer", "flu"]}
    >>> draft = init(pd.DataFrame(people))
    >>> draft["columns"]["age"]["grid"], draft["key"], draft["privacy"]
    (2, 'id', {'k': 2})
    """
    require_frame("init", frame)
    require_type("key", key, A_TEXT, or_none=True)
    require_k(k)
    found, wanted = draft_of(_columns_of(frame), "the DataFrame", key), {} if roles is None else roles
    if not isinstance(wanted, Mapping) or not all(role in ROLES for role in wanted.values()):
        raise UsageError("roles must be a dict by column of 'quasi-identifier', 'sensitive' or ''; or None")
    draft = found.judged(
        lambda column, texts: drafted(column.name, texts, wanted[column.name]) if column.name in wanted else column
    )
    reached = {one.name: one for one in draft.columns}
    for name, role in wanted.items():
        if name not in reached:
            why = "is the key, which is never published" if name == draft.key else "is no column of the DataFrame"
            raise UsageError(f"roles: {name!r} {why}")
        if reached[name].role != role:
            raise UsageError(f"roles: {name!r} cannot be {role}: {reached[name].why}")
    return DraftedTable(draft, k)


def _columns_of(frame: pd.DataFrame) -> pd.DataFrame:
    """The DataFrame, with the levels of its index that have names as columns. Raises UsageError for names of no use."""
    levels = [name for name in frame.index.names if name is not None]
    people = frame.reset_index(level=levels, allow_duplicates=True) if levels else frame
    if wrong := [name for name in people.columns if not isinstance(name, str)]:
        raise UsageError(f"init: the name of a column must be a text, not {type(wrong[0]).__name__}; rename it")
    if people.columns.has_duplicates:
        twice = people.columns[people.columns.duplicated()][0]
        raise UsageError(f"init: several columns are called {twice!r}; rename all but one")
    return people
