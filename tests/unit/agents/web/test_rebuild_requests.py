"""What somebody at the page may ask for, and the token that it takes."""

from __future__ import annotations

import pytest

from agents.web.rebuild_requests import Wanted, new_token, read_wanted
from streamer.errors import UsageError
from worlds.patients import CANARY


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (b"", Wanted()),
        (b"{}", Wanted()),
        (b'{"shard": null, "algorithm": null}', Wanted()),
        (b'{"shard": 3, "algorithm": "ordered"}', Wanted(3, "ordered")),
    ],
)
def test_a_request_names_a_shard_or_all_and_an_algorithm_or_that_of_the_table(body: bytes, wanted: Wanted) -> None:
    assert read_wanted(body) == wanted


@pytest.mark.parametrize(
    "body",
    [
        CANARY,
        f'{{"shard": "{CANARY}"}}',
        '{"shard": -1}',
        f'{{"{CANARY}": 1}}',
        f'{{"algorithm": "{CANARY}"}}',
        "[]",
    ],
)
def test_what_cannot_be_right_is_refused_and_not_repeated(body: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_wanted(body.encode())
    assert CANARY not in str(refused.value)


def test_no_two_workers_have_one_token() -> None:
    tokens = {new_token() for _ in range(20)}
    assert len(tokens) == 20
    assert min(map(len, tokens)) >= 20
