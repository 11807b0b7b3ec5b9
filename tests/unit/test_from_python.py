"""The calls from Python: page and notebook show what they print, and they say what the commands say."""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pytest

import streamer
from streamer.errors import StreamerError
from worlds.calls import answer
from worlds.calls import streamer as command
from worlds.checkout import PATIENTS, ROOT

PAGE, NOTEBOOK = ROOT / "docs/how-to/python.md", ROOT / "examples/notebook/patients.ipynb"
ROWS = PATIENTS / "rows.csv"
WRITES = os.environ.get("GOLDEN") == "write"


def shown_by(code: str, names: dict[str, Any]) -> tuple[str, object]:
    """What a cell prints, and the value of its last line if that is an expression."""
    body = ast.parse(code).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    with redirect_stdout(StringIO()) as printed:
        exec(compile(ast.Module(body, []), "cell", "exec"), names)
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if isinstance(last, ast.Expr) else None
    return printed.getvalue(), value


def html_of(value: object) -> str | None:
    """What a notebook shows of a value instead of its repr."""
    show: Callable[[], str] | None = getattr(value, "_repr_html_", None)
    return None if show is None else show()


# -- what is shown ----------------------------------------------------------------------------------------------------


def test_the_page_shows_what_its_calls_print() -> None:
    text, names = PAGE.read_text("utf-8"), dict[str, Any]()
    parts = re.split(r"(?<=\n)(```python\n.*?^```\n|```text\n.*?^```\n)", text, flags=re.M | re.S)
    cells = [i for i, part in enumerate(parts) if part.startswith("```python\n")]
    for cell, output in zip(cells, [i for i, part in enumerate(parts) if part.startswith("```text\n")], strict=True):
        printed, value = shown_by(parts[cell].removeprefix("```python\n").removesuffix("```\n"), names)
        parts[output] = f"```text\n{printed}{value!r}\n```\n"
    if WRITES:
        PAGE.write_text("".join(parts), "utf-8")
    assert "".join(parts) == text


def test_the_notebook_holds_what_its_cells_show() -> None:
    notebook, names = json.loads(NOTEBOOK.read_text("utf-8")), dict[str, Any]()
    for number, cell in enumerate((cell for cell in notebook["cells"] if cell["cell_type"] == "code"), start=1):
        printed, value = shown_by("".join(cell["source"]), names)
        outputs = [{"name": "stdout", "output_type": "stream", "text": printed.splitlines(True)}] * bool(printed)
        if value is not None:
            data = {"text/plain": repr(value).splitlines(True)}
            if (html := html_of(value)) is not None:
                data["text/html"] = html.splitlines(True)
            shown: dict[str, Any] = {"data": data, "execution_count": number, "metadata": {}}
            outputs.append({**shown, "output_type": "execute_result"})
        cell |= {"execution_count": number, "outputs": outputs}
    text = json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    if WRITES:
        NOTEBOOK.write_text(text, "utf-8")
    assert text == NOTEBOOK.read_text("utf-8")


# -- one body ---------------------------------------------------------------------------------------------------------


def test_a_draft_is_the_table_yaml_that_init_writes(tmp_path: Path) -> None:
    frame = pd.read_csv(ROWS)
    draft = streamer.init(frame)
    draft["table"] = "rows"
    assert command("init", ROWS, "-o", tmp_path / "mine").exit_code == 0
    written = draft.write(tmp_path / "ours")
    files = {path.relative_to(written) for path in written.rglob("*") if path.is_file()}
    assert len(files) == 2
    for name in files:
        theirs = (tmp_path / "mine" / name).read_text("utf-8")
        ours = (written / name).read_text("utf-8").replace("the DataFrame", "rows.csv").splitlines()
        assert sorted(line.strip() for line in ours) == sorted(line.strip() for line in theirs.splitlines())
    pd.testing.assert_frame_equal(streamer.anonymize(frame, draft), streamer.anonymize(frame, written))


def test_check_and_compare_say_what_the_commands_say() -> None:
    frame = pd.read_csv(ROWS)
    checked = streamer.check(frame, PATIENTS)
    said = json.loads(msgspec.json.Encoder(decimal_format="number").encode(checked.facts))
    assert said == answer("check", "--table", PATIENTS, "--data", ROWS)
    assert (checked.accepted, checked.refused) == (40, [])
    assert checked.costs.loc[3, "groups"] == 12
    theirs = answer("compare", "--table", PATIENTS, ROWS)["algorithms"]
    frame_of = streamer.compare(frame, PATIENTS).frame
    assert {one["name"]: one["measures"]["ncp"] for one in theirs} == dict(frame_of["ncp"])


def test_a_report_holds_the_figures_of_the_command(tmp_path: Path) -> None:
    theirs = answer("anonymize", "--table", PATIENTS, ROWS, "-o", tmp_path / "out.csv")
    report = streamer.report(streamer.anonymize(pd.read_csv(ROWS), PATIENTS))
    for name in ("algorithm", "model", "measures", "cautions", "to_know", "options", "warnings", "unlisted"):
        assert report.facts[name] == theirs[name], name
    assert sum(size * groups for size, groups in report.sizes.items()) == 40
    assert "every QI group has at least 3 rows" in repr(report)
    assert str(html_of(report)).count("<img ") == 2


# -- what people hand over --------------------------------------------------------------------------------------------

PEOPLE = pd.DataFrame({"id": range(8), "age": [30, 31, 32, 33, 60, 61, 62, 63], "problem": list("abcdabcd")})
TABLE: dict[str, Any] = {
    "table": "people",
    "key": "id",
    "columns": {
        "age": {"role": "quasi-identifier", "type": "integer", "domain": [0, 99], "grid": 10},
        "problem": {"role": "sensitive"},
    },
    "privacy": {"k": 2},
    "publish": {"live": {"form": "rows"}},
}


def frames_of_no_use() -> Iterator[tuple[str, pd.DataFrame, str]]:
    twice = pd.concat([PEOPLE, PEOPLE[["age"]]], axis=1)
    yield "init", twice, "several columns are called 'age'; rename all but one"
    yield "check", twice, "the data has several columns 'age'"
    yield "init", pd.concat({"a": PEOPLE}, axis=1), "must be a text, not tuple"
    yield "compare", pd.concat({"a": PEOPLE}, axis=1), "none of the columns that table.yaml names"
    yield "init", PEOPLE.rename(columns={"age": 7}), "must be a text, not int"
    yield "init", PEOPLE.head(0), "has 0 rows"
    yield "compare", PEOPLE.head(0), "the data has no rows"
    yield "compare", PEOPLE.head(1), "fewer than k = 2"
    yield (
        "anonymize",
        PEOPLE.assign(problem=pd.Series([[1]] * 8)),
        "column 'problem' holds a value that is neither text",
    )


@pytest.mark.parametrize(("call", "frame", "says"), list(frames_of_no_use()))
def test_a_frame_of_no_use_is_refused_in_a_sentence(call: str, frame: pd.DataFrame, says: str) -> None:
    with pytest.raises(StreamerError, match=says):
        getattr(streamer, call)(*([frame] if call == "init" else [frame, TABLE]))


def test_what_check_refuses_is_counted_and_shown_nowhere() -> None:
    checked = streamer.check(PEOPLE.assign(age=pd.array([30, 31, 777, 33, 60, 61, None, 63], dtype="Int64")), TABLE)
    assert [(row.data_row, row.column) for row in checked.refused] == [(3, "age"), (7, "age")]
    assert checked.accepted == 6
    assert "777" not in repr(checked) + str(html_of(checked))
    nobody = streamer.check(PEOPLE.head(0), TABLE)
    assert (nobody.accepted, len(nobody.costs)) == (0, 0)


def test_levels_of_an_index_that_the_table_names_are_columns() -> None:
    whose = {**TABLE, "individual": "person"}
    one = PEOPLE.assign(person=[0, 0, 1, 1, 2, 2, 3, 3])
    published, index = streamer.anonymize(one.set_index(["person", "id"]), whose, return_index=True)
    pd.testing.assert_frame_equal(published, streamer.anonymize(one, whose))
    assert index.index.names == ["person", "id"]
    with pytest.raises(StreamerError, match="an earlier row has the same key"):
        streamer.anonymize(PEOPLE.assign(id=7).set_index("id"), TABLE)


def test_an_index_without_meaning_changes_nothing_and_places_every_row() -> None:
    frame = PEOPLE.set_axis(pd.Index(["x"] * 8))
    published, index = streamer.anonymize(frame, TABLE, return_index=True)
    pd.testing.assert_frame_equal(published, streamer.anonymize(PEOPLE, TABLE))
    assert index.index.equals(frame.index)
    assert index.tolist() == ["0-1"] * 4 + ["0-2"] * 4
    assert streamer.verify(published, TABLE, source=frame, index=index).rows == 8


def test_attributes_of_a_published_frame_are_plain_values_that_survive_copies() -> None:
    published = streamer.anonymize(PEOPLE, TABLE)
    assert json.loads(json.dumps(published.attrs))["streamer"]["algorithm"] == "ordered"
    copies = [published.copy(), pd.concat([published, published]), published[["problem"]]]
    assert {repr(streamer.report(one)) for one in copies} == {repr(streamer.report(published))}
    with pytest.raises(StreamerError, match="takes the DataFrame that"):
        streamer.report(PEOPLE)


def test_some_algorithms_are_compared_by_their_names() -> None:
    compared = streamer.compare(PEOPLE, TABLE, algorithms=["ola", "ordered"])
    assert list(compared.frame.index) == ["ola", "ordered"]
    assert list(streamer.compare(PEOPLE, TABLE, k=4, algorithms=["ordered"]).frame["k"]) == [4]
    wrongs: list[Any] = ["ordered", [], [7]]
    for wrong in wrongs:
        with pytest.raises(StreamerError, match="algorithms must be a"):
            streamer.compare(PEOPLE, TABLE, algorithms=wrong)
