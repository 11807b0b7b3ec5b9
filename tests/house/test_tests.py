"""The rules of the tests' own house, read off their source: which module is tested where, and how tests reach in.

A test stands by its kind and its price: unit/ (seconds; mirrors streamer/ and agents/), laws/, papers/, simulation/,
servers/ (a real Kafka and Redis), drills/, house/; what several tests stand in is built in worlds/.
"""

from __future__ import annotations

from worlds.checkout import ROOT

TESTS = ROOT / "tests"

# Modules whose tests do not stand where their name leads to, and where those stand.
ELSEWHERE = {
    "streamer/incremental/groups/cut.py": "unit/incremental/groups/test_cut.py",
    "streamer/incremental/store/redis.py": "servers/test_redis_store.py",
    "streamer/incremental/store/redis_lookups.py": "servers/test_redis_store.py",
    "streamer/incremental/store/redis_server.py": "servers/test_redis_store.py",
    "streamer/incremental/store/base.py": "worlds/store_contract.py",  # a protocol: every store is held to it
    "streamer/incremental/kafka_clients.py": "servers/test_subscribe.py",
    "streamer/cli/subscribe.py": "servers/test_subscribe.py",
}

# Types, constants and options without a rule of their own: nothing there can be wrong by itself.
NOTHING_TO_TEST = {
    "streamer/table/arrays.py",
    "streamer/cli/options.py",
    "streamer/recoding/algorithms/contract.py",
}

# Being written beside this rule: to be emptied.
BEING_WRITTEN: set[str] = set()


def modules() -> list[str]:
    """Every module that may be imported, but those that only open a folder."""
    paths = sorted((ROOT / "streamer").rglob("*.py"))
    return [path.relative_to(ROOT).as_posix() for path in paths if path.name != "__init__.py"]


def tests_of(module: str) -> str:
    """Where the tests of a module stand, by its name."""
    folder, name = module.removeprefix("streamer/").rpartition("/")[::2]
    return "/".join(filter(None, ("unit", folder, f"test_{name}")))


def test_every_module_has_tests_that_its_name_leads_to() -> None:
    lost = [
        f"{module}: there is no tests/{ELSEWHERE.get(module, tests_of(module))}"
        for module in modules()
        if module not in NOTHING_TO_TEST | BEING_WRITTEN
        and not (TESTS / ELSEWHERE.get(module, tests_of(module))).is_file()
    ]
    assert not lost, "\n".join(lost)
