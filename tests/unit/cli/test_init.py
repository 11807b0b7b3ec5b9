"""`streamer init`: a first table.yaml that loads, fits its data, and says what there is to check."""

from __future__ import annotations

import csv
import tempfile
from decimal import Decimal
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from streamer.cli.main import main
from streamer.table.draft.columns import drafted
from streamer.table.draft.numbers import scale_of
from streamer.table.encode import Encoder
from streamer.table.files import read_rows
from streamer.table.schema import CategoricalAttribute, KeptColumn, NumericAttribute, Table
from streamer.table.yaml_loading import load_table
from worlds.checkout import PATIENTS


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


# -- the whole way --------------------------------------------------------------------------------------------------


def test_what_it_writes_can_be_anonymized_at_once(tmp_path: Path) -> None:
    result = init(PATIENTS / "rows.csv", tmp_path / "mine")
    assert result.exit_code == 0, result.output
    table = load_table(tmp_path / "mine")
    assert (table.source_key, table.k) == (("id",), 5)
    assert [a.name for a in table.attributes] == ["age", "zip", "bmi", "sex"]
    assert table.kept == (KeptColumn("problem", sensitive=True, type="text"),)
    arguments = ["--table", str(tmp_path / "mine"), str(PATIENTS / "rows.csv"), "-o", str(tmp_path / "out.csv")]
    anonymized = CliRunner().invoke(main, ["anonymize", *arguments])
    assert anonymized.exit_code == 0, anonymized.output
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 41


def test_names_are_nowhere_in_what_it_writes_or_says(tmp_path: Path) -> None:
    result = init(PATIENTS / "rows.csv", tmp_path / "mine")
    written = [path.read_text() for path in (tmp_path / "mine").rglob("*.*") if path.is_file()]
    assert len(written) == 3  # table.yaml and the hierarchies of zip and sex
    assert not [text for text in (*written, result.output) if "Person 001" in text]
    assert "The values of the categories stand in" in result.stdout
    assert "check every line" in result.stdout


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "hierarchies").mkdir()
    (tmp_path / "hierarchies" / "sex.csv").write_text("mine")
    result = init(PATIENTS / "rows.csv", tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "sex.csv: is there already, and is not overwritten" in result.stderr
    assert not (tmp_path / "table.yaml").exists()
    assert (tmp_path / "hierarchies" / "sex.csv").read_text() == "mine"


def test_adult_with_a_key_is_drafted_whole(adult: Path, tmp_path: Path) -> None:
    frame = read_rows(adult / "adult.csv").head(3000)
    table, _ = begun(tmp_path, **{name: frame[name].tolist() for name in frame.columns})
    assert len(table.attributes) == 8
    assert [column.name for column in table.kept] == ["salary-class"]
    assert len(Encoder(table).frame(read_rows(tmp_path / "rows.csv")).codes) == 3000


@given(st.data())
def test_whatever_the_columns_hold_it_loads_and_every_row_fits(data: st.DataObject) -> None:
    cells = st.one_of(
        st.lists(st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-999, max_value=999).map(str)),
        st.lists(st.integers(-(10**15), 10**15).map(str)),
        st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32).map(str)),
        st.lists(st.sampled_from(["", "x", "*", "(none)", " y", 'a"b', "a;b", "a,b", "true", "no", "é", "#"])),
        st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\x00\r"), max_size=6)),
        st.lists(st.dates().map(str)),
        st.lists(st.from_regex(r"[0-9]{5}", fullmatch=True)),
    )
    n = data.draw(st.integers(4, 12))
    names = st.one_of(st.text(max_size=8), st.sampled_from(["age", "age_lo", "zip", "qi_group", "income", "a: b", "é"]))
    columns = {"id": [str(i) for i in range(n)], "sure": ["1", "2"] * (n // 2) + ["1"] * (n % 2)}
    for name in data.draw(st.lists(names.filter(lambda name: "\r" not in name), max_size=4, unique=True)):
        some = data.draw(cells) or [""]
        columns.setdefault(name, [some[i * 7 % len(some)] for i in range(n)])
    with tempfile.TemporaryDirectory() as folder:
        source = write(Path(folder) / "rows.csv", columns)
        result = init(source, Path(folder) / "out")
        assert result.exit_code == 0, result.output
        table = load_table(Path(folder) / "out")
        assert len(Encoder(table).frame(read_rows(source)).codes) == n


# -- numbers --------------------------------------------------------------------------------------------------------


@given(st.lists(st.decimals(-(10**6), 10**6, places=3), min_size=1, max_size=9))
def test_a_domain_holds_every_number_and_its_ends_are_nobodys(numbers: list[Decimal]) -> None:
    scale = scale_of(numbers)
    assert scale is not None
    lo, hi = scale.domain
    assert lo <= min(numbers)
    assert max(numbers) < hi
    assert lo != min(numbers) or lo == 0
    attribute = NumericAttribute("x", scale.domain, scale.grid, scale.step, Decimal(1), scale.integer)
    assert attribute.n_cells <= 28


@pytest.mark.parametrize(
    ("texts", "domain", "step", "grid"),
    [
        (["17", "39", "90"], (15, 94), 1, 5),
        (["0", "1"], (0, 2), 1, 1),
        (["18", "22"], (17, 23), 1, 1),
        (["-5", "5"], (-6, 6), 1, 1),
        (["16.5", "42.9"], (16, "43.9"), "0.1", "2"),
        (["1200", "98000"], (0, 99999), 1, 5000),
        (["0.12345", "0.98765"], ("0.1", "1"), None, "0.05"),
    ],
)
def test_scales_are_what_people_count_in(
    texts: list[str], domain: tuple[object, ...], step: object, grid: object
) -> None:
    scale = scale_of([Decimal(text) for text in texts])
    assert scale is not None
    assert (scale.domain, scale.step, scale.grid) == (
        tuple(Decimal(str(end)) for end in domain),
        None if step is None else Decimal(str(step)),
        Decimal(str(grid)),
    )


def test_types_follow_the_texts(tmp_path: Path) -> None:
    table, text = begun(
        tmp_path,
        age=["31", "44", "58", "62"],
        bmi=["21.5", "30", "27.5", "22"],
        measured=["0.123456", "0.5", "0.75", "0.9"],
        member=["true", "false", "true", "false"],
        city=["Bonn", "Ulm", "Bonn", "Ulm"],
        code=["0017", "0017", "0018", "0018"],
    )
    age, bmi, measured, *categories = table.attributes
    assert isinstance(age, NumericAttribute)
    assert age.integer
    assert isinstance(bmi, NumericAttribute)
    assert bmi.step == Decimal("0.1")
    assert isinstance(measured, NumericAttribute)
    assert measured.step is None
    assert [a.name for a in categories] == ["member", "city", "code"]
    assert all(isinstance(a, CategoricalAttribute) for a in categories)
    assert "no column looks sensitive by its name" in text


def test_empty_cells_are_counted_as_something_and_said(tmp_path: Path) -> None:
    table, text = begun(tmp_path, age=["31", "", "58", "62"], city=["Bonn", "", "Bonn", ""])
    age, city = table.attributes
    assert age.null_code == 0
    assert isinstance(city, CategoricalAttribute)
    assert city.hierarchy.leaves[city.null_code or 0] == "(none)"
    assert "1 empty cells count as null_as, which is true of nobody" in text
    assert "2 empty cells count as (none)" in text


# -- categories and what is left out --------------------------------------------------------------------------------


def test_dates_and_digit_codes_get_the_levels_of_their_texts() -> None:
    (day,) = drafted("born", ["1971-03-09"]).hierarchy
    assert day == ("1971-03-09", "1971-03", "1971", "*")
    (code,) = drafted("zip", ["10085"]).hierarchy
    assert code == ("10085", "1008*", "100**", "10***", "1****", "*")


@pytest.mark.parametrize(
    ("name", "texts", "why"),
    [
        ("surname", ["x"] * 9, "names people"),
        ("home_address", ["x"] * 9, "names people"),
        ("customerId", ["7"] * 9, "an identifier"),
        ("remarks", [f"text {i}" for i in range(9)], "9 different texts in 9 cells"),
        ("essay", ["x" * 61] * 9, "1 different texts in 9 cells"),
        ("nothing", [""] * 9, "holds nothing"),
        ("code", [f"00{i}7" for i in range(9)], "9 different texts"),
        ("blanks", [" x", "y", "y"] * 3, "blanks at an end"),
        ("star", ["*", "y", "y"] * 3, "called *"),
        ("huge", [str(10**20)] * 9, "more digits"),
    ],
)
def test_what_could_name_people_or_cannot_be_generalized_is_left_out(name: str, texts: list[str], why: str) -> None:
    column = drafted(name, texts)
    assert column.role == ""
    assert why in column.why


def test_a_column_is_sensitive_by_its_name_alone_and_marked_as_a_guess(tmp_path: Path) -> None:
    table, text = begun(tmp_path, age=["31", "44", "58", "62"], income=["10", "20", "10", "30"])
    assert table.kept == (KeptColumn("income", sensitive=True, type="integer"),)
    assert "income: {role: sensitive, type: integer}  # a guess, by its name: published as it is" in text


def test_two_columns_that_would_be_published_under_one_name_are_told_apart(tmp_path: Path) -> None:
    table, text = begun(tmp_path, age=["1", "2", "3", "4"], age_lo=["x", "x", "y", "y"], qi_group=["a", "a", "b", "b"])
    assert [a.name for a in table.attributes] == ["age"]
    assert text.count("would be published under a name that is taken") == 2


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"id": ["1"], "age": ["3"]}, "has 1 rows; a table of people begins with two"),
        ({"id": [], "age": []}, "has 0 rows"),
        ({"age": ["3", "3"], "sex": ["f", "f"]}, "no column is different in every row"),
        ({"id": ["1", "2"], "name": ["x", "y"]}, "no column looks like a quasi-identifier"),
    ],
)
def test_data_without_rows_key_or_quasi_identifier_is_refused(
    tmp_path: Path, columns: dict[str, list[str]], said: str
) -> None:
    result = init(write(tmp_path / "rows.csv", columns), tmp_path / "out")
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert not (tmp_path / "out").exists()
