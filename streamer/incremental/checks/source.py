"""The laws that compare a published changelog with the source rows.

They need the private index table (source key -> QI group; Song et al. 2009, definition 4) and show that the changelog
is true: every row is in its group's box, which no row that is gone still widens, every value is published once, and
each group has as many individuals as the model needs, none with more rows than its share. Work is in proportion to the
QI groups that are checked. The first violation is raised, without a value.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

import numpy as np

from streamer.incremental.checks.as_published import GroupSeen, QIGroupId, group_name
from streamer.incremental.checks.changelog import ChangelogLaws, violation
from streamer.privacy.models import SubjectCodes, about_individuals, model_of, subject_names
from streamer.table.row import Row, Values
from streamer.table.schema import Table

SOURCE_LAWS = {
    "index": "every source row is in the index table once, and nothing else is",
    "containment": "every source row is in the box of its QI group, or its cells are published",
    "edges": "the box of a QI group is the smallest one around its rows, unless table.yaml says `shrink: false`",
    "values": "a QI group publishes the values of its rows, each once, unless `coarsest` withholds it; pending "
    "rows are in none",
    "individuals": "a QI group holds at least k individuals, and none has more than its share of the rows",
}


class IndexTable:
    """Source rows by QI group; None: pending."""

    def __init__(self) -> None:
        self._qi_group_of: dict[str, QIGroupId | None] = {}
        self._members: dict[QIGroupId, dict[str, Row]] = {}

    def __len__(self) -> int:
        return len(self._qi_group_of)

    def put(self, source_key: str, row: Row, qi_group: QIGroupId | None) -> set[QIGroupId]:
        """Sets a row and its QI group; returns the QI groups that it left and joined."""
        touched = self.remove(source_key)
        self._qi_group_of[source_key] = qi_group
        if qi_group is not None:
            self._members.setdefault(qi_group, {})[source_key] = row
            touched.add(qi_group)
        return touched

    def remove(self, source_key: str) -> set[QIGroupId]:
        """Removes a row, if it is there; returns the QI group that it left."""
        qi_group = self._qi_group_of.pop(source_key, None)
        if qi_group is None:
            return set()
        members = self._members[qi_group]
        del members[source_key]
        if not members:
            del self._members[qi_group]
        return {qi_group}

    def members(self, qi_group: QIGroupId) -> Sequence[Row]:
        return list(self._members.get(qi_group, {}).values())

    @property
    def qi_groups(self) -> set[QIGroupId]:
        return set(self._members)


_OLD = " (are source and index of one moment?)"


def index_table(
    rows: Mapping[str, Row], lines: Iterable[tuple[str, QIGroupId | None]], where: str = "the index table"
) -> IndexTable:
    """Joins source rows and the lines (source key, QI group) of an index table; checks the law `index`."""
    index = IndexTable()
    for number, (source_key, qi_group) in enumerate(lines, start=1):
        row = rows.get(source_key)
        if row is None:
            raise violation("index", where, f"row {number} names a source key that the source does not have{_OLD}")
        index.put(source_key, row, qi_group)
        if len(index) != number:
            raise violation("index", where, f"row {number} names a source key for the second time")
    if len(index) != len(rows):
        raise violation("index", where, f"source rows that are missing: {len(rows) - len(index)}{_OLD}")
    return index


class SourceLaws:
    """Compares what is published with the source rows; checks `SOURCE_LAWS` for given QI groups."""

    def __init__(self, table: Table, changelog: ChangelogLaws, index: IndexTable) -> None:
        self._table = table
        self._changelog = changelog
        self.index = index
        model = about_individuals(model_of(table))
        self._model, self._codes, self._names = model, SubjectCodes(table, model), subject_names(table, model)

    def check_all(self, where: str) -> None:
        """Checks all QI groups, of the index table and of the changelog."""
        self.check(self.index.qi_groups | set(self._changelog.qi_groups), where)

    def check(self, qi_groups: Iterable[QIGroupId], where: str, withheld: Container[QIGroupId] | None = None) -> None:
        """Checks some QI groups; where: at which release. Raises LawViolated at the first violation.

        withheld: those wider than `coarsest` allows. None: not known, so they are found by the smallest boxes around
        their rows; without `shrink` a group's own may be wider, so every group may be withheld.
        """
        for qi_group in sorted(qi_groups):
            self._check_qi_group(qi_group, where, withheld)

    def _check_qi_group(self, qi_group: QIGroupId, where: str, withheld: Container[QIGroupId] | None) -> None:
        rows = self.index.members(qi_group)
        seen = self._changelog.qi_groups.get(qi_group)
        published = seen.values if seen else ()
        subject = f"{where}, QI group {group_name(qi_group)}"
        if rows and not published and (self._may_be_withheld(rows) if withheld is None else qi_group in withheld):
            return
        if len(rows) != len(published):
            raise violation("values", subject, f"it has {len(rows)} source rows, but {len(published)} published rows")
        if seen and rows:
            self._check_box(rows, seen, subject)
            self._check_values(rows, published, subject)
            self._check_individuals(rows, subject)

    def _may_be_withheld(self, rows: Sequence[Row]) -> bool:
        space = self._table.space
        cells = space.cells(np.array([row.codes for row in rows], dtype=np.int64))
        return space.is_bounded and (not self._table.shrink or bool(space.too_wide(*space.box_of_cells(cells))))

    def _check_box(self, rows: Sequence[Row], seen: GroupSeen, subject: str) -> None:
        cells = self._table.space.cells(np.array([row.codes for row in rows], dtype=np.int64))
        misplaced = seen.misplaced(cells)
        if misplaced is not None:
            column = self._table.attributes[misplaced].name
            raise violation("containment", subject, f"a source row is outside its box in column {column}")
        wider = seen.wider(*self._table.space.box_of_cells(cells)) if self._table.shrink else None
        if wider is not None:
            column = self._table.attributes[wider].name
            raise violation("edges", subject, f"its box is wider than its source rows in column {column}")

    def _check_values(self, rows: Sequence[Row], published: Sequence[Values], subject: str) -> None:
        if sorted(row.values for row in rows) == sorted(published):
            return
        for i, column in enumerate(self._table.kept):
            if sorted(row.values[i] for row in rows) != sorted(values[i] for values in published):
                raise violation("values", subject, f"column {column.name} does not hold the values of its source rows")
        raise violation("values", subject, "the kept columns combine values of different source rows")

    def _check_individuals(self, rows: Sequence[Row], subject: str) -> None:
        codes = self._codes.of([row.values for row in rows], [row.individual for row in rows])
        shortfall = self._model.shortfall(codes, self._names)
        if shortfall:
            raise violation("individuals", subject, shortfall)
