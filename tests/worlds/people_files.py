"""Files as people have them: hierarchies in any order and shape, and data for `streamer init` with what it drafts."""

from __future__ import annotations

import csv
from pathlib import Path

from click.testing import CliRunner, Result
from hypothesis import strategies as st

from streamer.cli.main import main
from streamer.table.hierarchy import Hierarchy
from streamer.table.schema import Table
from streamer.table.yaml.loading import load_table

Lines = list[list[str]]

# A level's values nest in these: `unknown` is everything where a baker is still a craftsman.
CRAFTS: Lines = [["baker", "craft", "*"], ["unknown", "*", "*"], ["smith", "craft", "*"]]


@st.composite
def arx_files(draw: st.DrawFn, max_leaves: int = 8) -> Lines:
    """Lines of a random tree in any order; of a label on a line there may be several copies, one after the other."""
    tree = st.recursive(st.none(), lambda children: st.lists(children, min_size=1, max_size=3), max_leaves=max_leaves)
    lines: Lines = []
    labels = iter(range(10_000))

    def walk(branch: list | None, above: list[str]) -> None:
        path = [f"n{next(labels)}", *above]
        if branch is None:
            lines.append(path)
        for child in branch or []:
            walk(child, path)

    for root in draw(st.lists(tree, min_size=1, max_size=2)):
        walk(root, [])
    copied = [[label for label in line for _ in range(draw(st.sampled_from([1, 1, 1, 2])))] for line in lines]
    return draw(st.permutations(copied))


def by_label(tree: Hierarchy) -> dict[str, list[frozenset[str]]]:
    """What every level makes of every leaf, as sets of leaves: the same whatever the order of the lines."""
    return {
        leaf: [frozenset(tree.leaves[tree.node_lo[node] : tree.node_hi[node] + 1]) for node in tree.levels[:, code]]
        for leaf, code in tree.code_of.items()
    }


def init(data: Path, out: Path) -> Result:
    return CliRunner().invoke(main, ["init", str(data), "-o", str(out)])


def write(path: Path, columns: dict[str, list[str]]) -> Path:
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def begun(tmp_path: Path, **columns: list[str]) -> tuple[Table, str]:
    """The table that is drafted for these columns and an id, and the text of its table.yaml."""
    n = len(next(iter(columns.values())))
    data = write(tmp_path / "rows.csv", {"id": [str(i) for i in range(n)], **columns})
    result = init(data, tmp_path / "out")
    assert result.exit_code == 0, result.output
    return load_table(tmp_path / "out"), (tmp_path / "out" / "table.yaml").read_text()
