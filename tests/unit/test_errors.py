"""Errors by whose fault they are: an exit code each, and the reason of a refused message beside its sentence."""

from __future__ import annotations

import sys

import pytest

from streamer import errors
from streamer.errors import (
    EXIT_LAW,
    EXIT_OK,
    EXIT_SERVER,
    EXIT_USAGE,
    EventRefused,
    LawViolated,
    LibraryMissing,
    StreamerError,
    needs_extra,
)

OURS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, StreamerError)]


def test_the_exit_codes_are_those_of_the_manual() -> None:
    assert (EXIT_OK, EXIT_LAW, EXIT_USAGE, EXIT_SERVER) == (0, 1, 2, 3)


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)
def test_an_error_says_whose_fault_it_is_and_never_ends_a_command_well(kind: type[StreamerError]) -> None:
    special = {
        "LawViolated": EXIT_LAW, "GroupTooLarge": EXIT_LAW,
        "ServerUnreachable": EXIT_SERVER, "RegistryUnreachable": EXIT_SERVER,
    }  # fmt: skip
    assert kind.exit_code == special.get(kind.__name__, EXIT_USAGE)
    assert kind.__doc__


def test_a_refused_message_has_a_stable_reason_beside_its_sentence() -> None:
    refused = EventRefused("out-of-domain", "column 'age': outside the domain", "age")
    assert (str(refused), refused.reason, refused.detail, refused.column) == (
        "column 'age': outside the domain", "out-of-domain", "column 'age': outside the domain", "age",
    )  # fmt: skip
    assert EventRefused("truncated", "no column is at fault").column is None


def test_a_violated_law_is_told_apart_from_a_wrong_command() -> None:
    assert not issubclass(LawViolated, EventRefused)
    assert LawViolated.exit_code != EventRefused.exit_code


def test_a_library_that_is_not_installed_is_told_with_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    said = r"pyarrow is not installed: `pip install 'streamer\[parquet\]'`"
    with pytest.raises(LibraryMissing, match=said), needs_extra("parquet"):
        import pyarrow.parquet  # noqa: F401


def test_a_module_of_ours_that_is_missing_is_no_matter_of_extras() -> None:
    with pytest.raises(ModuleNotFoundError), needs_extra("parquet"):
        import streamer.nowhere  # type: ignore[import-not-found]  # noqa: F401
