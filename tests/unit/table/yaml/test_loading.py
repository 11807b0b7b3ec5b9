"""table.yaml and variables: what they mean, and how their faults are reported."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamer.errors import ConfigError, UsageError
from streamer.table.codes import CategoricalAttribute, Diversity, KeptColumn, NumericAttribute
from streamer.table.encode import Encoder
from streamer.table.published.rows import published_columns
from streamer.table.schema import REPAIR, EpochLength, Limits, Repair, SealedRules, Table, differences
from streamer.table.space import FINENESS
from streamer.table.yaml.loading import hidden_columns, load_table, settings_by_variable, table_of
from worlds.checkout import PATIENTS, ROOT

NEVER_PUBLISHED = "which is never published; remove it, or let it be `role: keep` with a pseudonym (`publish`)"


def test_a_variable_wins_over_the_file_and_leaves_its_neighbours(tmp_path: Path) -> None:
    text = (PATIENTS / "table.yaml").read_text() + "\nlimits: {batch_ms_max: 40, batch_events_max: 300}\n"
    (tmp_path / "table.yaml").write_text(text.replace("hierarchy: ", f"hierarchy: {PATIENTS}/"))
    limits = load_table(tmp_path, {"STREAMER_LIMITS_BATCH_MS_MAX": "20"}).limits
    assert (limits.batch_ms_max, limits.batch_events_max) == (20, 300)


def test_a_variable_sets_what_the_file_does_not_name() -> None:
    rebuilding = load_table(PATIENTS, {"STREAMER_REBUILD_EVERY": "1d", "STREAMER_REBUILD_DRIFT": "1.5"}).rebuilding
    assert (rebuilding.every, str(rebuilding.drift)) == (86_400, "1.5")


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("STREAMER_LIMITS_BATCH_MS_MAX", "soon", r"limits.batch_ms_max \(STREAMER_LIMITS_BATCH_MS_MAX\): must be"),
        (
            "STREAMER_LIMITS_BATCHES",
            "3",
            r"limits.batches \(STREAMER_LIMITS_BATCHES\): is not a setting",
        ),
        ("STREAMER_PRIVACY_K", "2", "STREAMER_PRIVACY_K: `privacy` can only be set in table.yaml"),
        (
            "STREAMER_PUBLISH_LIVE",
            "rows",
            "`publish` can only be set in table.yaml; variables can set limits and rebuild",
        ),
    ],
)
def test_what_a_variable_may_not_say_is_refused_by_its_name(variable: str, value: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load_table(PATIENTS, {variable: value})


def test_variables_that_are_others_are_let_be() -> None:
    others = {
        "STREAMER_SERVICE_HOST": "10.0.0.1",
        "STREAMER_TABLE": "here",
        "STREAMER_LIMITS_BATCH_MS_MAX": "",
        "K": "2",
    }
    assert settings_by_variable(others) == {}


# table.yaml: what it may say, what it means, and that every fault is named with its place.

GOLDEN = """
table: patients
key: id
columns:
  age: {role: quasi-identifier, type: integer, domain: [1, 120], grid: 5, unit: 1}
  zip: {role: quasi-identifier, type: integer, domain: [1000, 99000], step: 1000, grid: 5000, unit: 1000}
  problem: {role: sensitive}
privacy: {k: 2}
publish: {live: {form: rows}}
"""

SEX = "Female;*\nMale;*\n"


@pytest.fixture
def load(tmp_path: Path):  # type: ignore[no-untyped-def]
    (tmp_path / "sex.csv").write_text(SEX)

    def write_and_load(text: str) -> Table:
        (tmp_path / "table.yaml").write_text(text, encoding="utf-8")
        return load_table(tmp_path / "table.yaml")

    return write_and_load


def with_column(settings: str, name: str = "x") -> str:
    return GOLDEN.replace("columns:\n", f"columns:\n  {name}: {{{settings}}}\n")


def faults(load, text: str) -> list[str]:  # type: ignore[no-untyped-def]
    """The sentences of the refusal, without the file's name."""
    with pytest.raises(ConfigError) as caught:
        load(text)
    first, *sentences = str(caught.value).split("\n  ")
    assert first.endswith(f"table.yaml: {len(sentences)} fault{'s' * (len(sentences) > 1)}")
    return sentences


Load = Callable[..., Table]


# -- what it means --------------------------------------------------------------------------------------------------


def test_the_golden_table_publishes_the_golden_box(load: Load) -> None:
    table = load(GOLDEN)
    row = Encoder(table).row({"age": 21, "zip": 12000, "problem": "flu"})
    lo, hi = table.space.box_of_cells(table.space.cells(np.array([row.codes])))
    numbers = [a for a in table.attributes if isinstance(a, NumericAttribute)]
    intervals = [a.interval(int(lo[j]), int(hi[j])) for j, a in enumerate(numbers)]
    assert intervals == [(21, 25), (11000, 15000)]
    assert table.space.unit_codes.tolist() == [1.0, 1.0]
    assert published_columns(table) == ("qi_group", "age_lo", "age_hi", "zip_lo", "zip_hi", "problem")


def test_every_setting_reaches_the_table(load: Load, tmp_path: Path) -> None:
    (tmp_path / "trees").mkdir()
    (tmp_path / "trees" / "city.csv").write_text('\ufeff"a, b",west,*\nc,west,*\nd,east,*\n', encoding="utf-8")
    table = load("""
table: people.v2
key: [ward, bed]
individual: ssn
columns:
  bmi: {role: quasi-identifier, type: decimal, domain: [10, 80.0], grid: 0.50, unit: 2, null_as: 20.5}
  city: {role: quasi-identifier, hierarchy: trees/city.csv, unit: 2, null_as: "a, b"}
  no: {role: quasi-identifier, hierarchy: sex.csv}
  problem: {role: sensitive, hierarchy: sex.csv}
  score: {role: sensitive, type: decimal}
  clinic: {role: keep, type: text, acknowledge_linkable: true}
privacy: {k: 5}
engine: {recut: false, shrink: false, repair: 0.2}
publish: {live: {form: rows}}
durability: stated
input: {partitioner: stated, form: rows, decimals: text}
limits:
  {batch_events_max: 100, batch_ms_max: 20, transaction_rows_max: 1000, statement_rows_max: 9, event_bytes_max: 5000}
""")
    bmi, city, no = table.attributes
    assert (table.name, table.source_key, table.individual, table.k) == ("people.v2", ("ward", "bed"), "ssn", 5)
    assert bmi == NumericAttribute(
        "bmi", (Decimal(10), Decimal(80)), Decimal("0.5"), None, Decimal(2), integer=False, null_code=21 * FINENESS
    )
    assert isinstance(city, CategoricalAttribute)
    assert city.hierarchy.leaves == ("a, b", "c", "d")
    assert (city.unit, city.null_code) == (2, 0)
    assert (no.name, no.unit) == ("no", Decimal("0.4"))
    problem, score, clinic = table.kept
    assert problem.hierarchy is not None
    assert score == KeptColumn("score", sensitive=True, type="decimal")
    assert clinic == KeptColumn("clinic", sensitive=False, type="text")
    assert (table.recut, table.shrink, table.repair, table.durability_stated) == (False, False, Repair(0.2), True)
    assert (table.partitioner_stated, table.input_rows, table.decimals_are_text) == (True, True, True)
    assert table.limits == Limits(100, 20, 1000, 9, 5000)


def test_local_repair_has_a_price_or_is_off(load: Load) -> None:
    settings = with_column("role: quasi-identifier, type: integer, domain: [0, 100]")
    assert load(settings).repair == REPAIR
    assert load(f"{settings}\nengine: {{repair: off}}").repair == Repair()
    assert load(f"{settings}\nengine: {{repair: 1.50}}").repair == Repair(price=1.5)
    assert load(f"{settings}\nengine: {{repair: 2.5%}}").repair == Repair(share=0.025)


def test_local_repair_is_on_beside_every_model(load: Load) -> None:
    asking_more = GOLDEN.replace("k: 2", "k: 2, l: 2")
    assert asking_more != GOLDEN
    assert load(asking_more).repair == REPAIR
    assert load(f"{asking_more}\nengine: {{repair: off}}").repair == Repair()
    assert load(f"{asking_more}\nengine: {{repair: 0.02}}").repair == Repair(0.02)


def test_by_default_there_is_no_local_repair_if_no_boxes_are_published(load: Load) -> None:
    joined = GOLDEN.replace("k: 2", "k: 2, l: 2").replace("form: rows", "form: lossy-join")
    assert load(joined).form == "lossy-join"
    assert load(joined).repair == Repair()
    assert load(f"{joined}\nengine: {{repair: 0.02}}").repair == Repair(0.02)


def test_what_is_not_said_has_a_default(load: Load) -> None:
    table = load(with_column("role: quasi-identifier, type: integer, domain: [0, 100]"))
    x = table.attributes[0]
    assert isinstance(x, NumericAttribute)
    assert (x.step, x.grid, x.unit, x.null_code) == (1, 1, 20, None)
    assert (table.individual, table.recut, table.shrink, table.durability_stated) == (None, True, True, False)
    assert (table.partitioner_stated, table.input_rows, table.decimals_are_text) == (False, False, False)
    assert table.limits == Limits()


def test_equal_numbers_written_otherwise_are_the_same_table(load: Load) -> None:
    spelled = GOLDEN.replace("[1, 120], grid: 5,", "[1.0, 1.2e2], grid: 5.00,")
    assert load(spelled).fingerprint == load(GOLDEN).fingerprint


def test_a_directory_stands_for_the_table_in_it(load: Load, tmp_path: Path) -> None:
    load(GOLDEN)
    assert load_table(str(tmp_path)).name == "patients"


def test_columns_that_are_not_published_are_named(load: Load) -> None:
    table = load(GOLDEN)
    assert hidden_columns(table, ["id", "name", "age", "zip", "problem"]) == ["id", "name"]


def test_the_example_table_is_valid() -> None:
    table = load_table(ROOT / "examples" / "patients")
    assert (table.name, table.k, len(table.attributes)) == ("patients", 3, 4)


# -- what is refused ------------------------------------------------------------------------------------------------

QI = "role: quasi-identifier"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (f"{QI}, type: text", "columns.x.type: must be 'integer', 'decimal', 'date', 'timestamp' or 'local-timestamp'"),
        (QI, "columns.x: needs a type (integer, decimal, date, timestamp) with a domain, or a hierarchy"),
        (
            f"{QI}, hierarchy: sex.csv, grid: 5",
            "columns.x.grid: is only for `type: integer` and `type: decimal`",
        ),
        (f"{QI}, hierarchy: sex.csv, unit: 0", "columns.x.unit: must be above 0; it counts leaves"),
        (
            f"{QI}, hierarchy: sex.csv, null_as: Other",
            "columns.x.null_as: must be a leaf of the column's hierarchy; or write `null: own-category` instead",
        ),
        (
            f"{QI}, hierarchy: none.csv",
            "columns.x.hierarchy: none.csv: cannot be read: No such file or directory",
        ),
        (
            f"{QI}, hierarchy: sex.csv, levels: 2",
            "columns.x.levels: is not a setting; there are role, type, domain, grid, step, outside, width, unit,"
            " weight, coarsest, hierarchy, null_as, null, other, na, written",
        ),
        ("role: secret", "columns.x.role: must be quasi-identifier, sensitive or keep"),
        ("type: integer", "columns.x.role: must be quasi-identifier, sensitive or keep"),
        (
            "role: sensitive, hierarchy: sex.csv, type: integer",
            "columns.x.type: the leaves of a hierarchy are text; remove type or hierarchy",
        ),
        (
            "role: keep",
            "columns.x: is published as it is and could link its row to a person;"
            " add `acknowledge_linkable: true`, or remove the column",
        ),
    ],
)
def test_a_column_that_cannot_be_is_refused(load: Load, settings: str, sentence: str) -> None:
    assert faults(load, with_column(settings)) == [sentence]


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("k: 2", "k: 1", "privacy.k: must be at least 2"),
        ("{k: 2}", "{}", "privacy.k: is missing"),
        ("k: 2", "k: 2, l: 1", "privacy.l: must be at least 2"),
        ("k: 2", "k: 2, alpha: 0", "privacy.alpha: must be above 0"),
        ("k: 2", "k: 2, beta: 50%", "privacy.beta: must be a number"),
        ("k: 2", "k: 2, r: 1.5", "privacy.r: must be at most 1"),
        (
            "k: 2",
            "k: 2, r: 0.5",
            "privacy.r: columns.problem has no hierarchy that says which values are close:"
            " give it one, as every sensitive column needs, or remove r",
        ),
        ("k: 2", "k: 2, level: 1", "privacy.level: has no effect without privacy.r; set that, or remove this"),
        (
            "k: 2",
            "k: 2, null_counts: true",
            "privacy.null_counts: has no effect without privacy.l; set that, or remove this",
        ),
        (
            "k: 2",
            "k: 2, l: 2, null_counts: maybe",
            "privacy.null_counts: must be true or false",
        ),
        (
            "{role: sensitive}\nprivacy: {k: 2}",
            "{role: sensitive, hierarchy: sex.csv}\nprivacy: {k: 2, r: 0.5, level: 2}",
            "privacy.level: the hierarchy of problem ends at level 1",
        ),
        (
            "{role: sensitive}\nprivacy: {k: 2}",
            "{role: sensitive, hierarchy: sex.csv}\nprivacy: {k: 2, l: 4, null_counts: true}",
            "privacy.l: problem has 2 values, so no QI group has 4 distinct ones",
        ),
        (
            "{role: sensitive}\nprivacy: {k: 2}",
            "{role: sensitive, hierarchy: sex.csv}\nprivacy: {k: 2, beta: 0.3}",
            "privacy.beta: problem has 2 values, so in every QI group one of them has a larger share",
        ),
        (
            "  problem: {role: sensitive}\nprivacy: {k: 2}",
            "privacy: {k: 2, l: 3}",
            "privacy.l: needs sensitive values, but no column has `role: sensitive`",
        ),
        (
            "{role: sensitive}\nprivacy: {k: 2}",
            "{role: sensitive, hierarchy: sex.csv, l: 4}\nprivacy: {k: 2}",
            "columns.problem.l: problem has 2 values, so no QI group has 4 distinct ones",
        ),
        (
            "{role: sensitive}",
            "{role: sensitive, r: 0.5}",
            "columns.problem.r: columns.problem has no hierarchy that says which values are close: give it one or"
            " remove r",
        ),
        (
            "{role: sensitive}\nprivacy: {k: 2}",
            "{role: sensitive, hierarchy: sex.csv, r: 0.5}\nprivacy: {k: 2, level: 2}",
            "privacy.level: the hierarchy of problem ends at level 1",
        ),
        (
            "{role: sensitive}",
            "{role: sensitive, level: 1}",
            "columns.problem.level: has no effect without columns.problem.r; set that, or remove this",
        ),
        (
            "{role: sensitive}",
            "{role: sensitive, alpha: 0.5}",
            "columns.problem.alpha: is about individuals: set privacy.alpha, or `beta` here, which is about values",
        ),
        (
            "live: {form: rows}",
            "live: {form: lossy-join}",
            "publish.live.form: lossy-join publishes exact quasi-identifiers, so people are protected only if the"
            " sensitive values of a QI group differ: set privacy.l, or privacy.beta below 1, or one of them in each"
            " sensitive column",
        ),
        (
            "k: 2",
            "k: 2, t: 3",
            "privacy.t: is not a setting; there are k, l, alpha, beta, r, level, null_counts, capitals_count",
        ),
        (
            "publish: {live: {form: rows}}",
            "",
            "publish: is missing; nothing is published by default: write `publish: {live: {form: rows}}`",
        ),
        (
            "{form: rows}",
            "{}",
            "publish.live.form: is missing; nothing is published by default: write `publish: {live: {form: rows}}`",
        ),
        ("form: rows", "form: columns", "publish.live.form: must be 'rows', 'groups' or 'lossy-join'"),
        (
            "{form: rows}}",
            "{form: rows}, sealed: {epoch: 10s, delta: 3}}",
            "publish.sealed.delta: has no effect without publish.sealed.tau; set that, or remove this",
        ),
        (
            "{form: rows}}",
            "{form: rows}, sealed: {epoch: 10s, alpha: 0.3}}",
            "publish.sealed.alpha: one of 3 rows has a larger share, so no cohort would show any; raise it, or k",
        ),
        (
            "{form: rows}}",
            "{form: rows}, sealed: {epoch: 10s, l: 4}}",
            "publish.sealed.l: a cohort has about k to 3 rows, so none would show its values; lower it, or raise k",
        ),
        (
            "  problem: {role: sensitive}\nprivacy: {k: 2}\npublish: {live: {form: rows}}",
            "privacy: {k: 2}\npublish: {sealed: {epoch: 10s, l: 2}}",
            "publish.sealed.l: needs sensitive values, but no column has `role: sensitive`",
        ),
        (
            "privacy:",
            "rebuild: {every: daily}\nprivacy:",
            "rebuild.every: must be a duration such as 30m, 24h or 7d, or `never`",
        ),
        (
            "table: patients",
            "table: pa:tients",
            "table: must be at most 200 letters, digits, dots, dashes or underscores: it names Kafka's topics",
        ),
        ("table: patients", "", "table: is missing"),
        ("key: id", "key: id\ninput: {partitioner: crc32}", "input.partitioner: must be 'stated'"),
        ("key: id", "key: id\ninput: {form: row}", "input.form: must be 'rows'"),
        ("key: id", "key: id\ninput: {decimals: bytes}", "input.decimals: must be 'text'"),
        ("key: id", "key: [id, id]", "key: names a column twice"),
        ("key: id", "key: age", f"columns.age: is the key, {NEVER_PUBLISHED}"),
        ("key: id", "key: id\nindividual: zip", f"columns.zip: is the individual, {NEVER_PUBLISHED}"),
        ("privacy:", "durability: sure\nprivacy:", "durability: must be 'stated'"),
        ("privacy:", "limits: {batch_ms_max: -1}\nprivacy:", "limits.batch_ms_max: must be at least 0"),
        ("privacy:", "engine: [recut]\nprivacy:", "engine: must be a mapping"),
        *(
            (
                "privacy:",
                f"engine: {{repair: {price}}}\nprivacy:",
                "engine.repair: must be `off`, or the loss that each row published again has to save: a share of what a"
                " row loses, such as 5%, or a number, where 1 is the whole domain of one column; above 0, at most 100",
            )
            for price in ("0", "-1", "on", "false", "101", "0.0000000001", "[0.1]", "nan", "7%%", "0%", "101%", "1e-3x")
        ),
        (
            "  problem: {role: sensitive}",
            "  age_lo: {role: sensitive}",
            "columns.age_lo: publishes 'age_lo', like columns.age; rename one",
        ),
        (
            "  problem: {role: sensitive}",
            "  qi_group: {role: sensitive}",
            "columns.qi_group: publishes 'qi_group', like the number of the QI group; rename one",
        ),
    ],
)
def test_a_table_that_cannot_be_is_refused(load: Load, before: str, after: str, sentence: str) -> None:
    assert before in GOLDEN
    assert faults(load, GOLDEN.replace(before, after)) == [sentence]


def test_demands_beyond_k_reach_the_table_exactly(load: Load) -> None:
    text = GOLDEN.replace("problem: {role: sensitive}", "problem: {role: sensitive, hierarchy: sex.csv}")
    table = load(text.replace("k: 2", "k: 2, l: 2, alpha: 0.10, beta: 0.4, r: 0.35, level: 0"))
    assert table.diversity == Diversity(2, Decimal("0.10"), Decimal("0.4"), Decimal("0.35"), 0)


def test_demands_of_a_column_reach_the_table_beside_those_of_all(load: Load) -> None:
    column = "{role: sensitive, hierarchy: sex.csv, l: 2, beta: 0.60, r: 0.7}"
    table = load(GOLDEN.replace("{role: sensitive}", column).replace("k: 2", "k: 2, l: 2, level: 0, null_counts: true"))
    own = Diversity(2, None, Decimal("0.60"), Decimal("0.7"), 0, null_counts=True)
    assert [*table.demands] == [(0, Diversity(2, level=0, null_counts=True)), (0, own)]
    table = load(GOLDEN.replace("{role: sensitive}", "{role: sensitive, l: 3}"))
    assert [*table.demands] == [(0, Diversity()), (0, Diversity(3))]
    load(GOLDEN.replace("{role: sensitive}", "{role: sensitive, l: 2}").replace("form: rows", "form: lossy-join"))


def test_a_table_is_a_mapping_of_its_settings_too_with_hierarchies_as_rows() -> None:
    year = [date(2024, 1, 1), date(2024, 12, 31)]
    columns: dict[str, dict[str, Any]] = {
        "age": {"role": "quasi-identifier", "type": "integer", "domain": [1, 120], "grid": 5},
        "seen": {"role": "quasi-identifier", "type": "date", "domain": year, "grid": "1 day"},
        "sex": {"role": "quasi-identifier", "hierarchy": [["Male", "*"], ["Female", "*"]], "null_as": None},
        "problem": {"role": "sensitive", "l": 2, "beta": 0.4},
        "note": {"role": "keep", "acknowledge_linkable": True},
    }
    said = {"table": "people", "columns": columns, "privacy": {"k": 3}, "publish": {"live": {"form": "rows"}}}
    table = table_of(said, needs_key=False)
    assert [a.name for a in table.attributes] == ["age", "seen", "sex"]
    sex = table.attributes[2]
    assert isinstance(sex, CategoricalAttribute)
    assert sex.hierarchy.leaves == ("Male", "Female")
    assert (table.k, table.kept[0].diversity) == (3, Diversity(2, None, Decimal("0.4")))
    columns["sex"]["hierarchy"] = [["Male", "*"], ["Male", "other"]]
    with pytest.raises(ConfigError, match=r"the table: 1 fault\n  columns.sex.hierarchy: .*Male"):
        table_of(said, needs_key=False)
    with pytest.raises(UsageError, match=r"the path of a table.yaml, not list"):
        table_of([])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("place", "value", "sentence"),
    [
        ("hierarchy", ["ab", "cb"], "hierarchy: must be the name of a file, or a list of rows, each from leaf to root"),
        ("hierarchy", [{"leaf": "a"}], "hierarchy: must be the name of a file, or a list of rows"),
        ("hierarchy", [["a", None]], "hierarchy: must be a text, a number, true or false, not NoneType"),
        ("hierarchy", np.array([["a", "*"]]), "hierarchy: must be the name of a file, or a list of rows"),
        ("na", {"x", "y"}, "na: must be a text, a number, true or false, not set"),
        ("na", ["x", float("nan")], r"na.1: must be a text, a number, true or false, not float"),
        ("unit", {1: 2}, "unit: a name must be a text, not int"),
    ],
)
def test_what_no_file_could_say_is_refused_by_its_place(place: str, value: object, sentence: str) -> None:
    city = {"role": "quasi-identifier", "hierarchy": [["a", "*"], ["b", "*"]], place: value}
    said = {"table": "t", "columns": {"city": city}, "privacy": {"k": 2}, "publish": {"live": {"form": "rows"}}}
    with pytest.raises(ConfigError, match=rf"^the table: columns.city.{sentence}"):
        table_of(said, needs_key=False)


def test_a_column_without_settings_is_a_fault_and_not_absent() -> None:
    said = {"table": "t", "columns": {"city": None}, "privacy": {"k": 2}, "publish": {"live": {"form": "rows"}}}
    with pytest.raises(ConfigError, match=r"columns.city.role: must be"):
        table_of(said, needs_key=False)
    said["columns"] = said
    with pytest.raises(ConfigError, match="must be a text, a number, true or false, not dict"):
        table_of(said, needs_key=False)


def test_a_demand_of_a_column_that_no_cohort_can_hold_is_refused(load: Load) -> None:
    sealed = GOLDEN.replace("live: {form: rows}", "sealed: {epoch: 1h}")
    for said, sentence in (
        ("l: 4", "columns.problem.l: a cohort has about k to 3 rows, so none would show its values; lower it, or"),
        ("beta: 0.3", "columns.problem.beta: one of 3 rows has a larger share, so no cohort would show any; raise it"),
    ):
        (fault,) = faults(load, sealed.replace("{role: sensitive}", f"{{role: sensitive, {said}}}"))
        assert fault.startswith(sentence)


@pytest.mark.parametrize(
    ("said", "counts"), [("", False), (", null_counts: false", False), (", null_counts: true", True)]
)
def test_nulls_count_for_diversity_only_where_the_table_says_so(load: Load, said: str, counts: bool) -> None:
    assert load(GOLDEN.replace("k: 2", f"k: 2, l: 2{said}")).diversity.null_counts is counts


def test_a_table_without_a_quasi_identifier_is_refused(load: Load) -> None:
    text = "table: t\nkey: id\ncolumns: {p: {role: sensitive}}\nprivacy: {k: 2}\npublish: {live: {form: rows}}\n"
    assert faults(load, text) == ["columns: at least one must be a quasi-identifier"]


def test_all_faults_are_listed_at_once(load: Load) -> None:
    text = with_column(f"{QI}, type: integer, domain: [9, 5], grid: 0").replace("key: id", "key: age")
    assert faults(load, text) == [
        "columns.x.grid: must be above 0",
        "columns.x.domain: the lower end is above the upper end",
        f"columns.age: is the key, {NEVER_PUBLISHED}",
    ]
    text = GOLDEN.replace("k: 2", "k: two, l: 1").replace("form: rows", "form: none")
    assert [sentence.split(":")[0] for sentence in faults(load, text)] == [
        "privacy.k",
        "privacy.l",
        "publish.live.form",
    ]


def test_a_setting_that_comes_twice_is_refused_with_its_line(load: Load) -> None:
    with pytest.raises(ConfigError, match=r"table\.yaml, line 4: not valid YAML: 'key' comes twice"):
        load(GOLDEN.replace("key: id", "key: id\nkey: name"))


@pytest.mark.parametrize("text", ["", "- a\n", "patients\n"])
def test_a_file_that_is_no_mapping_is_refused(load: Load, text: str) -> None:
    assert faults(load, text) == ["the file: must be a mapping that starts with `table: <name>`"]


def test_a_file_that_is_no_yaml_is_refused_with_the_line(load: Load) -> None:
    with pytest.raises(ConfigError, match=r"table\.yaml, line 2: not valid YAML"):
        load("table: [a\nkey: }\n")


@pytest.mark.parametrize("text", ["[" * 20_000, "- " * 20_000, "a: {" * 20_000])
def test_a_file_that_is_nested_too_deeply_is_refused(load: Load, text: str) -> None:
    with pytest.raises(ConfigError, match="nested too deeply"):
        load(text)


@pytest.mark.parametrize("file", ["/dev/zero", "pipe"])
def test_a_device_or_a_pipe_is_neither_table_yaml_nor_a_hierarchy(tmp_path: Path, file: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    text = (PATIENTS / "table.yaml").read_text()
    (tmp_path / "table.yaml").write_text(re.sub(r"hierarchy: [\w./-]+", f"hierarchy: {file}", text))
    with pytest.raises(ConfigError, match=rf"hierarchy: {file}: cannot be read: it is no regular file"):
        load_table(tmp_path)
    with pytest.raises(ConfigError, match="cannot be read: it is no regular file"):
        load_table(tmp_path / file)


def test_a_file_of_many_gigabytes_is_not_read_to_its_end(tmp_path: Path) -> None:
    with open(tmp_path / "table.yaml", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ConfigError, match="cannot be read: it has more than 10,000,000 characters"):
        load_table(tmp_path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"table\.yaml: cannot be read: No such file"):
        load_table(tmp_path)


def test_a_hierarchy_that_no_reader_could_decode_is_refused_with_its_file(load: Load, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("a;x;*\na;y;*\n")
    assert faults(load, with_column(f"{QI}, hierarchy: bad.csv")) == [
        "columns.x.hierarchy: bad.csv: hierarchy row 2: leaf 'a' has another path in an earlier row"
    ]


@pytest.mark.parametrize("asked", ["l: 2", "l: 3, null_counts: true", "beta: 0.34"])
def test_what_a_column_has_values_enough_for_may_be_asked(load: Load, asked: str) -> None:
    text = GOLDEN.replace("problem: {role: sensitive}", "problem: {role: sensitive, hierarchy: sex.csv}")
    assert load(text.replace("k: 2", f"k: 2, {asked}")).diversity


def test_a_table_may_publish_a_sealed_changelog_beside_live_or_alone(load: Load) -> None:
    beside = load(GOLDEN.replace("{form: rows}}", "{form: rows}, sealed: {epoch: 10min, tau: 0.12}}"))
    alone = load(GOLDEN.replace("{live: {form: rows}}", "{sealed: {epoch: 1000 events, alpha: 0.4, counters: false}}"))
    assert (beside.live, alone.live, load(GOLDEN).live) == (True, False, True)
    assert beside.sealed == SealedRules(EpochLength(seconds=600), tau=Decimal("0.12"), delta=4)
    assert alone.sealed == SealedRules(EpochLength(events=1_000), Decimal("0.4"), counters=False)
    assert load(GOLDEN).sealed is None


def test_only_a_table_with_a_sealed_changelog_has_another_fingerprint_for_it(load: Load) -> None:
    plain, other = load(GOLDEN), load(GOLDEN.replace("{form: rows}}", "{form: rows}, sealed: {epoch: 10min}}"))
    assert differences(plain.fingerprint, other.fingerprint).parts == ("sealed", "epochs")
    assert replace(other, sealed=None).fingerprint == plain.fingerprint
