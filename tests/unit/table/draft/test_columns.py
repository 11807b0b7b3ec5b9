"""Drafts of columns from their cells, and the reasons that they give."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from streamer.table.codes import CategoricalAttribute, KeptColumn, NumericAttribute, TemporalAttribute
from streamer.table.draft.columns import (
    drafted,
    sentinel_values,
    source_key_of,
)
from streamer.table.draft.kinds import DraftScale, TimeScale
from worlds.people_files import begun

# Sentinels: numbers that stand for no answer.

RATINGS = ["1", "2", "3", "4", "5"] * 20


@pytest.mark.parametrize(
    ("numbers", "far"),
    [
        ([1, 2, 3, 4, 5, 99], [99]),
        ([1, 2, 3, 4, 5, 97, 98, 99], [97, 98, 99]),
        ([1, 2, 9], [9]),
        ([18, 35, 90, 999], [999]),
        ([*range(1, 10), 99], [99]),
        ([18, 35, 90, -1], [-1]),
        ([18, 35, 90, -1, 999], [-1, 999]),
        ([1, 2, 3, 4, 5, -99], [-99]),
        ([21_000, 48_000, 90_000, 999_999], [999_999]),
        ([Decimal("21.5"), Decimal("30.1"), Decimal("999.0")], [999]),
    ],
)
def test_few_codes_after_a_wide_gap_are_sentinels(numbers: list[int], far: list[int]) -> None:
    assert sentinel_values([Decimal(number) for number in numbers]) == set(map(Decimal, far))


@pytest.mark.parametrize(
    "numbers",
    [
        [],
        [99],
        [5, 99],
        [1, 99],
        [18, 35, 90, 99],
        [*range(100)],
        [*range(1, 10)],
        [20_000, 35_000, 90_000, 1_200_000],
        [20_000, 35_000, 90_000, 99_999],
        [0, 2_174, 41_310, 99_999],
        [-1, 0, 1],
        [-1, 1],
        [-1, 0, 18, 35],
        [-2, -1, 1, 3, 5],
        [-1, 1, 2],
        [1, 2, 3, 1_000],
    ],
)
def test_tails_scales_around_zero_and_plain_numbers_are_not(numbers: list[int]) -> None:
    assert sentinel_values([Decimal(number) for number in numbers]) == set()


def test_a_draft_says_how_many_rows_hold_codes_for_no_answer_and_none_of_the_codes() -> None:
    why = drafted("rating", [*RATINGS, "99", "99", "98"]).why
    assert "3 rows hold numbers far from all others" in why and "`na`" in why and "`null_as`" in why
    assert "99" not in why and "98" not in why
    assert "1 row holds a number far" in drafted("rating", [*RATINGS, "999.0"]).why


def test_a_draft_says_nothing_of_codes_that_are_names_of_places_or_published_as_they_are() -> None:
    assert "far from" not in drafted("zip", ["10115", "10117", "99999"] * 9).why
    assert "far from" not in drafted("income", [*RATINGS, "99"]).why
    assert "far from" not in drafted("rating", RATINGS).why


def test_whole_numbers_that_pandas_wrote_beside_holes_are_whole_numbers(tmp_path: Path) -> None:
    cells = [str(float(i % 7)) for i in range(60)]
    table, _ = begun(tmp_path, children=["", *cells], weight=["70.0", *cells])
    children, weight = table.attributes
    assert isinstance(children, NumericAttribute) and isinstance(weight, NumericAttribute)
    assert (children.integer, children.grid, weight.integer) == (True, Decimal(1), False)


def test_a_column_without_a_name_is_left_out_with_a_remedy() -> None:
    assert drafted("", ["0", "1", "2"]).why == "has no name: give it one in the header, such as id"


def test_categories_in_several_spellings_and_dates_with_short_years_get_a_hint() -> None:
    mixed = drafted("sex", ["m", "M", "f", "f"] * 9)
    assert mixed.role == "quasi-identifier"
    assert mixed.why.endswith("; 2 values are alike but for capitals or blanks: write them in one way in the source")
    blank = drafted("sex", ["male", "male ", "f", "f"] * 9)
    assert [row[0] for row in blank.hierarchy] == ["f", "male"]
    born = [f"{day}-Jan-19{year}" for day in range(1, 29) for year in range(40, 80)]
    assert drafted("born", born).written == "DD-MMM-YYYY"
    assert "years of two digits" in drafted("born", [f"{i % 28 + 1}.01.{i % 60 + 10}" for i in range(400)]).why


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
    age, bmi, measured, *categories, code = table.attributes
    assert isinstance(age, NumericAttribute)
    assert age.integer
    assert isinstance(bmi, NumericAttribute)
    assert bmi.step == Decimal("0.1")
    assert isinstance(measured, NumericAttribute)
    assert measured.step is None
    assert [a.name for a in categories] == ["member", "city"]
    assert isinstance(code, NumericAttribute)
    assert all(isinstance(a, CategoricalAttribute) for a in categories)
    assert "no column looks sensitive by its name" in text


def test_nulls_stand_where_no_value_does_and_it_is_said(tmp_path: Path) -> None:
    table, text = begun(tmp_path, age=["31", "", "58", "62"], city=["Bonn", "", "Bonn", ""])
    age, city = table.attributes
    assert isinstance(age, NumericAttribute)
    assert (age.null_code, age.domain[0]) == (0, -age.grid)
    assert isinstance(city, CategoricalAttribute)
    assert city.hierarchy.leaves[city.null_code or 0] == "(none)"
    assert "empty cells (1) count as null_as, in a first cell of their own" in text
    assert "empty cells (2) are a category of their own" in text


@pytest.mark.parametrize(
    "texts",
    [["0", "1", ""], ["1", "2", ""], ["-1", ""], ["0", ""], ["1949", "2019", ""], ["0.123456", "0.9", "N/A"]],
)
def test_the_cell_of_the_nulls_holds_no_value(texts: list[str]) -> None:
    found = drafted("member", texts)
    assert isinstance(found.scale, DraftScale)
    null = Decimal(found.null_as or "")
    assert found.scale.domain[0] == null
    assert all(Decimal(text) >= null + found.scale.grid for text in texts if text not in ("", "N/A"))


def test_what_is_said_of_a_domain_is_true_of_it() -> None:
    assert "that of the values seen" in drafted("member", ["0", "1"]).why
    assert "rounded outward" in drafted("age", ["18", "22"]).why


def test_flags_have_the_domain_of_flags(tmp_path: Path) -> None:
    table, _ = begun(tmp_path, member=["0", "1", "1", "0"], asked=["0", "?", "1", "0"])
    member, asked = table.attributes
    assert isinstance(member, NumericAttribute)
    assert [int(end) for end in member.domain] == [0, 1]
    assert isinstance(asked, NumericAttribute)
    assert [int(end) for end in asked.domain] == [-1, 1]


def test_words_for_nulls_are_those_of_the_table_and_doubtful_ones_those_of_the_column(
    tmp_path: Path,
) -> None:
    table, text = begun(
        tmp_path,
        age=["31", "?", "58", "-"],
        rhesus=["+", "-", "+", "-"],
        treatment=["none", "N/A", "none", "N/A"],
    )
    assert [a.name for a in table.attributes] == ["age", "rhesus"]
    assert 'na: ["", "?", "N/A"]' in text
    assert {t.column: t.na for t in table.source_texts} == {
        "id": ("", "?", "N/A"),
        "age": ("", "-", "?", "N/A"),
        "rhesus": ("", "?", "N/A"),
        "treatment": ("", "?", "N/A"),
    }


def test_dates_and_numbers_are_read_as_they_are_written(tmp_path: Path) -> None:
    table, text = begun(
        tmp_path,
        born=["31.12.1980", "1.2.1990", "N/A", "03.04.1985"],
        seen=["12/31/2020 08:00", "12/30/2020 09:30", "12/31/2020 10:00", "12/29/2020 11:00"],
        either=["01/02/2020", "03/04/2020", "05/06/2020", "07/08/2020"],
        cost=["1,234", "12", "1,234,567", "1"],
        income=["38,5", "-", "40", "20,25"],
    )
    written = {t.column: t.written for t in table.source_texts}
    assert written == {
        "id": None,
        "born": "DD.MM.YYYY",
        "seen": "MM/DD/YYYY hh:mm",
        "either": "DD/MM/YYYY",
        "cost": "1,234.5",
        "income": "1.234,5",
    }
    assert [type(a) for a in table.attributes] == [TemporalAttribute] * 3 + [NumericAttribute]
    assert text.count("day and month could be swapped") == 1


def test_doubts_are_said_of_sensitive_columns_too() -> None:
    for name in ("spent", "salary"):
        assert "could be thousands or fractions" in drafted(name, ["1.234", "2.500", "980"] * 2).why
        assert "could be thousands or fractions" not in drafted(name, ["1.23", "2.5", "980"] * 2).why
    for name in ("seen", "diagnosis_date"):
        assert "day and month could be swapped" in drafted(name, ["01/02/2020", "03/04/2020"] * 2).why


def test_dates_and_timestamps_get_cells_of_the_calendar(tmp_path: Path) -> None:
    table, text = begun(
        tmp_path,
        born=["1971-03-09", "", "1999-12-31", "1952-01-01"],
        seen=["2020-05-01T08:00:00Z", "2020-05-01T09:30:00Z", "2020-05-02T10:00:00Z", "2020-05-01T08:00:01+02:00"],
        wall=["2020-05-01 08:00:00", "2020-05-01 08:07:00", "2020-05-01 08:09:00", "2020-05-01 08:03:00"],
        salary_since=["2020-01-01", "2020-01-02", "2020-01-01", "2020-01-03"],
        mixed=["2020-01-01", "soon", "soon", "soon"],
    )
    born, seen, wall, mixed = table.attributes
    assert [type(attribute) for attribute in (born, seen, wall)] == [TemporalAttribute] * 3
    assert "born: {role: quasi-identifier, type: date, domain: [1935-01-01, 2009-12-31], grid: 5 years" in text
    assert 'null_as: "1935-01-01"}  # the domain has room for others' in text
    assert 'type: timestamp, domain: [2020-04-30, "2020-05-03T18:00:00Z"], grid: 6 hours' in text
    assert 'local-timestamp, domain: ["2020-05-01T07:50:00", "2020-05-01T08:19:00"], grid: 1 minute' in text
    assert isinstance(mixed, CategoricalAttribute)
    assert table.kept == (KeptColumn("salary_since", sensitive=True, type="date"),)


@pytest.mark.parametrize(
    ("name", "texts", "last", "grid"),
    [
        ("zip", ["10085", "07000"], 99_999, 100),
        ("postal_code", ["1008512", "123456"], 9_999_999, 10_000),
        ("branch", ["0017", "0017", "0018", "0018"], 9_999, 10),
        ("job_code", ["117", "117", "118", "118"], 999, 1),
    ],
)
def test_digit_codes_are_all_codes_of_so_many_digits_and_not_those_that_are_there(
    name: str, texts: list[str], last: int, grid: int
) -> None:
    found = drafted(name, texts)
    assert isinstance(found.scale, DraftScale)
    assert (found.scale.domain, found.scale.grid, found.written) == ((0, last), grid, "digits")
    assert found.scale.width == len(str(last))


def test_categories_take_those_that_are_not_known_yet(tmp_path: Path) -> None:
    table, _ = begun(tmp_path, city=["Bonn", "Ulm", "Bonn", "Ulm"], age=["31", "44", "58", "62"])
    city = table.attributes[0]
    assert isinstance(city, CategoricalAttribute)
    assert city.hierarchy.leaves[city.other_code or 0] == "(other)"


@pytest.mark.parametrize(
    ("name", "texts", "why"),
    [
        ("surname", ["x"] * 9, "its name says that it identifies people"),
        ("home_address", ["x"] * 9, "its name says that it identifies people"),
        ("customerId", ["7"] * 9, "its name says that it is a key"),
        ("remarks", [f"text {i}" for i in range(9)], "9 different texts in 9 cells"),
        ("essay", ["x" * 61] * 9, "1 different texts in 9 cells"),
        ("nothing", [""] * 9, "holds nothing"),
        ("code", [f"00{i}7" for i in range(9)], "9 different texts"),
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
    assert "income: {role: sensitive, type: integer}  # guessed by its name: published as it is" in text


def test_a_measure_that_is_different_in_every_row_is_no_key() -> None:
    """Seen: the longitude of a table of people without numbers of their own was drafted as its key."""
    places = [f"-118.{n:04}" for n in range(200, 260)]
    assert source_key_of({"age": ["30"] * 60, "longitude": places}) is None
    assert source_key_of({"longitude": places, "code": [f"c{n}" for n in range(60)]}) == "code"


# One cell costs no column: blanks, labels that a draft publishes by itself, free text, words beside numbers.


def test_blanks_at_the_ends_are_no_part_of_a_value() -> None:
    padded = drafted("city", ["Ulm       ", "Bonn      ", "          "] * 4)
    assert ([row[0] for row in padded.hierarchy], padded.nulls, padded.na) == (["Bonn", "Ulm"], True, ())
    assert drafted("age", ["31", "32 ", " 40"] * 4).scale is not None
    assert isinstance(drafted("born", ["1980-01-31", "1981-01-31 "] * 4).scale, TimeScale)


def test_values_named_as_published_ones_are_nulls() -> None:
    starred = drafted("city", ["Ulm", "Ulm", "Bonn", "*", "(none)", "Bonn"] * 4)
    assert ([row[0] for row in starred.hierarchy], starred.na) == (["Bonn", "Ulm"], ("(none)", "*"))
    assert "8 rows hold one of the words in `na`" in starred.why


@pytest.mark.parametrize("text", ["x" * 200, "Ulm\nBonn", "Ulm\tBonn"])
def test_a_rare_free_text_counts_as_other_and_is_not_quoted(text: str) -> None:
    column = drafted("city", ["Ulm", "Bonn"] * 50 + [text])
    assert [row[0] for row in column.hierarchy] == ["Bonn", "Ulm"]
    assert "1 row holds a long text or a line break, which counts as other" in column.why
    assert drafted("city", ["Ulm", "Bonn", text, text]).role == ""


NUMBERS, DATES, CODES = "numbers", "dates", "codes"
CELLS = {
    NUMBERS: [f"{1000 + 17 * i}" for i in range(60)],
    DATES: [f"{i % 28 + 1:02}.{i % 12 + 1:02}.{1950 + i}" for i in range(60)],
    CODES: [f"{i % 20:03}11" for i in range(60)],
}


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize(
    "words", [["k. A."], ["unbekannt"], ["nicht erhoben"], ["ND", "s/d"], ["Don't know", "refused"]]
)
@pytest.mark.parametrize("share", [0.02, 0.2, 0.49])
def test_words_for_not_known_are_nulls_in_any_share_up_to_half(kind: str, words: list[str], share: float) -> None:
    cells = CELLS[kind] * 10
    n = round(len(cells) * share / (1 - share))
    column = drafted("kept", [*cells, *(words * n)[:n]])
    assert (column.na, column.scale is not None, column.null_as is not None) == (tuple(sorted(words)), True, True)
    assert f"{n} rows hold one of the words in `na`, which are read as nulls: check them" in column.why
    assert "refused" not in column.why


@pytest.mark.parametrize("words", [["S", "M", "L"], ["A"], ["low", "high"]])
def test_other_words_in_many_rows_are_categories(words: list[str]) -> None:
    column = drafted("size", ["36", "38", "40"] * 10 + words * (12 // len(words)))
    assert {row[0] for row in column.hierarchy} == {"36", "38", "40", *words}


@pytest.mark.parametrize(
    ("cells", "mistake", "said"),
    [
        (CELLS[NUMBERS], "ca. 1.000", "1 row holds a text that is no number, and is refused"),
        (CELLS[NUMBERS], "1O17", "1 row holds a text that is no number, and is refused"),
        (
            CELLS[DATES],
            "31.02.1980",
            "1 row holds a text of another form, or a day that does not exist, and is refused",
        ),
        (CELLS[DATES], "Sommer 1980", "1 row holds a text of another form, or a day that does not exist"),
    ],
)
def test_one_wrong_cell_is_told_for_what_it_is_and_costs_no_column(cells: list[str], mistake: str, said: str) -> None:
    column = drafted("kept", [*cells, mistake])
    assert (column.scale is not None, said in column.why) == (True, True)


# Dates in forms of other systems.


@pytest.mark.parametrize(
    ("texts", "written"),
    [
        (["1951-2-2", "1951-12-12", "1952-1-31"], "YYYY-MM-DD"),
        (["1951-2-2 8:05", "1951-12-12 18:30"], "YYYY-MM-DD hh:mm"),
        (["19510202", "19991231", "20240229"], "YYYYMMDD"),
        (["31121951", "29022024"], "DDMMYYYY"),
        (["12311951", "02292024"], "MMDDYYYY"),
    ],
)
def test_days_without_zeros_or_without_marks_are_days(texts: list[str], written: str) -> None:
    column = drafted("born", texts * 4)
    assert (isinstance(column.scale, TimeScale), column.written) == (True, written)


@pytest.mark.parametrize("texts", [["19510202", "19511302"], ["30215566", "48120233"], ["00010101", "00020202"]])
def test_eight_digits_that_are_no_days_of_our_times_are_numbers_or_codes(texts: list[str]) -> None:
    assert not isinstance(drafted("spent", texts * 4).scale, TimeScale)
