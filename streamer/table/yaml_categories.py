"""Hierarchy files and what table.yaml says of the categories that they do not have: nulls and unknown ones.

Every fault is one sentence: place, what is wrong, what is allowed. A leaf that is added stands in no file and is
published like any other: `(none)` for nulls, below the root, because nothing is known of them; `(other)` for unknown
categories, below the node that table.yaml names. Where that is a leaf of the file, they count as this one.
"""

from __future__ import annotations

from dataclasses import replace

from streamer.errors import ConfigError
from streamer.table.attributes import CategoricalAttribute
from streamer.table.hierarchy import Hierarchy
from streamer.table.scalars import decimal_text
from streamer.table.schema import KeptColumn
from streamer.table.space import UNIT_SHARE
from streamer.table.yaml_shape import QuasiIdentifierSettings, SensitiveSettings

NULL_LABEL, OTHER_LABEL = "(none)", "(other)"

Rows = list[list[str]]


def categorical_attribute(
    place: str, name: str, column: QuasiIdentifierSettings, rows: Rows | None, faults: list[str]
) -> CategoricalAttribute | None:
    """The attribute, without what `null_as` says; None where there are faults, which are added to `faults`.

    rows: those of its hierarchy file; None: there is none that can be read.
    """
    if column.hierarchy is None:
        faults.append(f"{place}: needs a type (integer, decimal, date, timestamp) with a domain, or a hierarchy")
        return None
    numeric_only = [setting for setting in ("domain", "grid", "step") if getattr(column, setting) is not None]
    faults += [f"{place}.{setting}: is for `type: integer` and `type: decimal` only" for setting in numeric_only]
    if column.unit is not None and column.unit <= 0:
        faults.append(f"{place}.unit: must be above 0; it counts leaves")
    own_null = column.null is not None
    if own_null and column.null_as is not None:
        faults.append(f"{place}.null: a null counts as one thing; remove this setting, or null_as")
    hierarchy, other = hierarchy_of(place, column.hierarchy, rows, faults, column.other, own_null=own_null)
    if hierarchy is None:
        return None
    unit = column.unit or hierarchy.n_leaves * UNIT_SHARE
    return CategoricalAttribute(
        name,
        hierarchy,
        type(unit)(decimal_text(unit)),
        null_code=hierarchy.code_of.get(NULL_LABEL) if own_null else None,  # a node may have that name: a fault
        other_code=None if other is None else hierarchy.code_of[other],
    )


def categorical_with_null(
    place: str, attribute: CategoricalAttribute, null_as: str, faults: list[str]
) -> CategoricalAttribute | None:
    """The attribute with the leaf that a null counts as; None where its hierarchy has no such leaf."""
    code = attribute.hierarchy.code_of.get(null_as)
    if code is None:
        faults.append(f"{place}: must be a leaf of the column's hierarchy, or say `null: own-category` instead")
        return None
    return replace(attribute, null_code=code)


def sensitive_categories(
    place: str, name: str, column: SensitiveSettings, rows: Rows | None, faults: list[str]
) -> KeptColumn | None:
    """The sensitive column with its hierarchy, where it has one; None where that cannot be read."""
    kept = KeptColumn(name, sensitive=True, type=column.type)
    if column.hierarchy is None:
        if column.other is not None:
            faults.append(f"{place}.other: names a node of a hierarchy, and the column has none")
        return kept
    if column.type not in (None, "text"):
        faults.append(f"{place}.type: the leaves of a hierarchy are text; remove one of the two settings")
    hierarchy, other = hierarchy_of(place, column.hierarchy, rows, faults, column.other)
    return None if hierarchy is None else replace(kept, type="text", hierarchy=hierarchy, other=other)


def hierarchy_of(
    place: str, file: str, rows: Rows | None, faults: list[str], other: str | None = None, *, own_null: bool = False
) -> tuple[Hierarchy | None, str | None]:
    """The hierarchy of a file's rows, and the leaf of unknown categories.

    other: the node that takes them; own_null: whether nulls have a leaf of their own. Both are None where there are
    faults, which are added to `faults`.
    """
    if rows is None:
        return None, None
    rows = [[cell.strip() for cell in row] for row in rows]
    try:
        tree = Hierarchy.from_rows(rows)
        leaf = None if other is None else _leaf_of_others(place, tree, other, rows, faults)
        if own_null and _is_free(f"{place}.null", NULL_LABEL, tree, faults):
            rows.append([NULL_LABEL, *_root(rows)])
        return Hierarchy.from_rows(rows), leaf
    except ConfigError as error:
        faults.append(f"{place}.hierarchy: {file}: {error}")
    return None, None


def _leaf_of_others(place: str, tree: Hierarchy, node: str, rows: Rows, faults: list[str]) -> str | None:
    """The leaf of unknown categories; one that the file does not have is added to the rows."""
    if node in tree.code_of:
        return node
    if node not in tree.interval_of:
        faults.append(f"{place}.other: must be a node of the column's hierarchy, such as {tree.labels[0]!r}")
        return None
    if not _is_free(f"{place}.other", OTHER_LABEL, tree, faults):
        return None
    above = next((row[row.index(node) :] for row in rows if node in row), [])  # the root that several roots got
    rows.append([OTHER_LABEL, *above])
    return OTHER_LABEL


def _is_free(place: str, label: str, tree: Hierarchy, faults: list[str]) -> bool:
    if label in tree.interval_of:
        faults.append(f"{place}: adds the category {label!r}, which the hierarchy has already; rename that one")
    return label not in tree.interval_of


def _root(rows: Rows) -> list[str]:
    """The one root of the rows, as the path of what stands below it; empty where there are several."""
    paths = [path for path in ([cell for cell in row if cell] for row in rows) if path]
    roots, leaves = {path[-1] for path in paths}, {path[0] for path in paths}
    return list(roots) if len(roots) == 1 and not roots & leaves else []
