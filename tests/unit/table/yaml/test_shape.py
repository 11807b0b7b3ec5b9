"""Settings of table.yaml by themselves: what each may be, and the sentence of a fault."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from streamer.recoding.algorithms.catalog import ALGORITHMS
from streamer.table.codes import Span
from streamer.table.schema import RebuildRules, Repair
from streamer.table.yaml.loading import read_settings
from streamer.table.yaml.shape import (
    REBUILD_ALGORITHMS,
    Drift,
    Duration,
    Length,
    LocalRepair,
    Names,
    Number,
    TableSettings,
)


def said(kind: Any, text: object) -> object:
    return TypeAdapter(kind).validate_python(text)


def test_what_is_said_is_exact_and_of_its_kind() -> None:
    assert (said(Number, "0.1"), said(Drift, "1.2")) == (Decimal("0.1"), Decimal("1.2"))
    assert (said(LocalRepair, "1.50"), said(LocalRepair, "2.5 %")) == (Repair(price=1.5), Repair(share=0.025))
    assert said(Length, "3 months") == Span(3, "month")


def test_a_single_name_may_stand_without_a_list() -> None:
    assert said(Names, "id") == ("id",)
    assert said(Names, ["country", "id"]) == ("country", "id")


def test_a_word_stands_for_what_is_not_wanted() -> None:
    assert (said(LocalRepair, "off"), said(Drift, "never"), said(Duration, "never")) == (Repair(), None, None)


@pytest.mark.parametrize(
    ("kind", "text", "complaint"),
    [
        (Number, 0.1, "must be a number"),
        (Number, "0.0000000001", "9 after it"),
        (LocalRepair, "0", "must be `off`"),
        (LocalRepair, "101%", "at most 100"),
        (Drift, "1", "must be at least 1.01"),
        (Length, "5", "must be a length"),
        (Names, [], "at least 1"),
    ],
)
def test_a_refused_setting_names_what_is_allowed(kind: Any, text: object, complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        said(kind, text)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("30m", 1_800), ("24h", 86_400), ("7d", 604_800)])
def test_a_duration_is_a_number_and_a_letter(text: str, seconds: int) -> None:
    assert said(Duration, text) == seconds


def test_every_algorithm_of_the_catalog_can_be_named() -> None:
    assert set(REBUILD_ALGORITHMS) == set(ALGORITHMS)


# The shape of table.yaml by itself: exact numbers, every fault in one sentence and in one go, nothing promised.

COLUMN = {"role": "quasi-identifier", "type": "integer", "domain": ["0", "9"]}
PLAIN: dict[str, Any] = {
    "table": "people",
    "key": "id",
    "columns": {"age": COLUMN},
    "privacy": {"k": "3"},
    "publish": {"live": {"form": "rows"}},
}


def read(**changed: object) -> TableSettings:
    settings, faults = read_settings({**PLAIN, **changed})
    assert faults == []
    assert settings is not None
    return settings


def faults(**changed: object) -> list[str]:
    found = read_settings({**PLAIN, **changed})[1]
    assert found
    return found


def test_by_default_a_shard_is_rebuilt_after_drift_and_at_no_interval() -> None:
    assert RebuildRules(**read().rebuild.model_dump()) == RebuildRules("ordered", None, Decimal("1.2"))


def test_either_trigger_of_a_rebuild_can_be_never() -> None:
    never = read(rebuild={"every": "never", "drift": "never", "algorithm": "mondrian"}).rebuild
    assert (never.every, never.drift, never.algorithm) == (None, None, "mondrian")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"every": "24"}, "every: must be a duration such as 30m, 24h or 7d, or `never`"),
        ({"every": "-1h"}, "every: must be a duration such as 30m, 24h or 7d, or `never`"),
        ({"every": "٢h"}, "every: must be a duration such as 30m, 24h or 7d, or `never`"),
        ({"every": "1.5h"}, "every: must be a duration such as 30m, 24h or 7d, or `never`"),
        ({"every": None}, "every: must be a duration such as 30m, 24h or 7d, or `never`"),
        ({"every": "59s"}, "every: must be at least 1m and at most 3650d, or `never`"),
        ({"every": "999999999d"}, "every: must be at least 1m and at most 3650d, or `never`"),
        ({"drift": "1"}, "drift: must be at least 1.01 and at most 100, or `never`"),
        ({"drift": "20 %"}, "drift: must be a number"),
        ({"when": "24h"}, "when: is not a setting; there are algorithm, every, drift"),
        ({"algorithm": "median"},
         "algorithm: must be 'mondrian', 'emp', 'ola', 'degree-first', 'gdppr', 'bottom-up', 'top-down' or 'ordered'"),
    ],
)  # fmt: skip
def test_a_rebuild_that_cannot_be_is_refused(settings: dict[str, object], sentence: str) -> None:
    assert faults(rebuild=settings) == [f"rebuild.{sentence}"]


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"tabel": "x"}, "tabel: is not a setting; there are table, key, individual, na, columns, privacy, engine, "
                         "publish, input, durability, limits, rebuild"),
        ({"privacy": {"k": "many"}}, "privacy.k: must be a whole number"),
        ({"publish": {}}, "publish: names neither live nor sealed; nothing is published by default: write `publish: "
                          "{live: {form: rows}}`"),
    ],
)  # fmt: skip
def test_a_fault_is_one_sentence_with_its_place(changed: dict[str, object], sentence: str) -> None:
    assert faults(**changed) == [sentence]


@pytest.mark.parametrize(
    ("text", "length"),
    [("10min", "600s"), ("10m", "600s"), ("30s", "30s"), ("1h", "3600s"), ("7d", "604800s"),
     ("1000 events", "1000 events"), ("1 events", "1 events")],
)  # fmt: skip
def test_an_epoch_is_a_duration_or_a_number_of_row_changes(text: str, length: str) -> None:
    sealed = read(publish={"sealed": {"epoch": text}}).publish.sealed
    assert sealed is not None
    assert str(sealed.epoch) == length


EPOCHS = "must be at least 1 s and at most 366 d, or at least 1 and at most 100,000,000 events"
AN_EPOCH = "must be a duration such as 10m or 1h, or a number of row changes, such as 1000 events"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({}, "epoch: is missing"),
        ({"epoch": "1000"}, f"epoch: {AN_EPOCH}"),
        ({"epoch": "1.5h"}, f"epoch: {AN_EPOCH}"),
        ({"epoch": "never"}, f"epoch: {AN_EPOCH}"),
        ({"epoch": "0 events"}, f"epoch: {EPOCHS}"),
        ({"epoch": "367d"}, f"epoch: {EPOCHS}"),
        ({"epoch": "1h", "alpha": "0"}, "alpha: must be above 0"),
        ({"epoch": "1h", "alpha": "1.01"}, "alpha: must be at most 1"),
        ({"epoch": "1h", "theta": "1"}, "theta: must be below 1"),
        ({"epoch": "1h", "tau": "0"}, "tau: must be above 0"),
        ({"epoch": "1h", "form": "rows"}, "form: is not a setting; there are epoch, alpha, l, theta, tau, delta, "
                                          "counters"),
    ],
)  # fmt: skip
def test_a_sealed_changelog_that_cannot_be_is_refused(settings: dict[str, object], sentence: str) -> None:
    assert faults(publish={"sealed": settings}) == [f"publish.sealed.{sentence}"]
