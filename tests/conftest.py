"""What all tests share: real servers on demand, what waits for the night, hypothesis profiles, machine code.

A test that needs a real Kafka and Redis asks for the fixture `servers`. They are started once, by the first test that
asks, and stopped at the end; where tests run in several processes (`-n 3`), each process has its own. Where none can be
had those tests fail with the sentence that says what to install: a run without a real broker is never green by silence,
and the last lines of every run say which servers it used.

Tests that need servers run at night (`make night`), and so do drills, whatever is marked `night`, and all seeds of a
test but the first five. Those marked `gate("command or fault", ...)` run in `make test`: each command on real servers
once, and each class of faults once, which tests/house/test_tests.py holds.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from inspect import iscoroutinefunction, signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from filelock import FileLock
from hypothesis import HealthCheck, is_hypothesis_test, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from xdist.scheduler import LoadFileScheduling

from servers.broker import ways
from servers.broker.servers import NoServers, Servers
from streamer.native import library
from worlds.checkout import ROOT
from worlds.durations import Durations, longest_first, shared_by, slow

SEEDS_OF_THE_GATE = 5
"""A test with a parameter `seed` tries so many in the gate, and all at night."""

EXAMPLES_OF_A_LAW, EXAMPLES_OF_EACH_MIN = 40, 5
"""So many are drawn in the gate for all models, or tables, of a law together, but some for each; at night all for each.
"""

ITS_SETTINGS = "_hypothesis_internal_use_settings"
"""Where hypothesis keeps those of a test; its own plugin of pytest sets them there, too."""

NO_PARAMETERS = SimpleNamespace(params={})

SERVERS_USED = pytest.StashKey[list[str]]()

# Some machines ask Python to keep no bytecode. Then each process of a run, and each command that a test starts, would
# compile all that it imports, tests with their assertions among it, which takes longer than most of what they do.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell that starts a command in the background, and nohup, have it ignore SIGINT, and so would every command that a
# test starts and wants to interrupt. From a process that handles the signal they inherit the default.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A slow shared machine must not turn a law into a flaky test: no deadline per example. `ci` draws the same examples
# every time, so that a red run is the change's own doing; `night` draws new ones, FUZZ_EXAMPLES for each test, and
# remembers those that failed in a folder that stays.
settings.register_profile(
    "ci",
    max_examples=20,
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "night",
    settings.get_profile("ci"),
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "200")),
    derandomize=False,
    database=DirectoryBasedExampleDatabase(ROOT / ".fuzz"),
)
settings.load_profile("ci")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Tests have no examples in their docstrings, and to look for some takes as long as to collect all tests."""
    found = yield
    return [one for one in found if type(one) is pytest.Module or not file_path.name.startswith("test_")]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """An async test runs in an event loop of its own."""
    if not iscoroutinefunction(pyfuncitem.obj):
        return None
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in signature(pyfuncitem.obj).parameters}))
    return True


@pytest.fixture(scope="session")
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """A real Kafka and a real Redis, shared by the whole run: use topics, groups and prefixes of your own."""
    # SIGTERM ends pytest without its fixtures' ends by default, and would leave the servers behind.
    before = signal.signal(signal.SIGTERM, lambda *_: pytest.exit("terminated", returncode=128 + signal.SIGTERM))
    found, sentence = None, ""
    try:
        # One process at a time installs what is missing, and looks for ports that are free.
        with FileLock(tmp_path_factory.getbasetemp().parent / "servers.lock"):
            found = ways.find(tmp_path_factory.mktemp("servers"))
            found.start()
        _told(request.config, f"{found.origin}; {found.kafka_bootstrap}, {found.redis_url}")
        yield found
    except NoServers as reason:
        sentence = str(reason)
        _told(request.config, f"NONE: {sentence}")
    finally:
        if found is not None:
            found.stop()
        signal.signal(signal.SIGTERM, before)
    if sentence:
        pytest.fail(sentence, pytrace=False)


@pytest.fixture(autouse=True)
def _no_width_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Click's runner and pytest's own terminal leave the width that they were called with."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(autouse=True)
def _servers_run_again(request: pytest.FixtureRequest) -> None:
    """A drill that crashed or froze a server and then failed must not take the next test with it."""
    if "servers" in request.fixturenames:
        request.getfixturevalue("servers").start()


def pytest_configure(config: pytest.Config) -> None:
    library.ready()  # built once if its sources have changed, outside of any test's time limit
    if "PYTEST_XDIST_WORKER" not in os.environ:
        config.pluginmanager.register(Durations())


@pytest.fixture(scope="session")
def adult() -> Path:
    """The folder of UCI Adult: adult.csv and hierarchies/*.csv (ARX's, `;`), adult-45222.csv (all 15 columns, `,`)."""
    folder = Path(os.environ.get("STREAMER_DATA") or ROOT.parent / "shared" / "data") / "adult"
    if not (folder / "adult.csv").exists():
        pytest.skip(f"the Adult data is not here: {folder} has no adult.csv (STREAMER_DATA names the folder above it)")
    return folder


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The marker `servers` and the fixture of that name imply each other; what waits for the night is marked."""
    for item in items:
        names = getattr(item, "fixturenames", [])
        if "servers" in names:
            item.add_marker("servers")
        elif item.get_closest_marker("servers"):
            names.append("servers")
        seed = getattr(item, "callspec", NO_PARAMETERS).params.get("seed")
        if (
            item.get_closest_marker("drill")
            or (item.get_closest_marker("servers") and not item.get_closest_marker("gate"))
            or (isinstance(seed, int) and seed >= SEEDS_OF_THE_GATE)
        ):
            item.add_marker("night")
        if item.nodeid in slow():
            item.add_marker("slow")
    if "not night" in config.option.markexpr:
        draw_fewer_on_each([item for item in items if not item.get_closest_marker("night")])
    if "PYTEST_XDIST_WORKER" in os.environ:
        longest_first(items)


def draw_fewer_on_each(items: list[pytest.Item]) -> None:
    """Has a law that is tried on many models draw fewer examples on each."""
    laws = [item.obj for item in items if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj)]
    for law, tried_on in Counter(laws).items():
        asked, fewer = getattr(law, ITS_SETTINGS), max(EXAMPLES_OF_EACH_MIN, EXAMPLES_OF_A_LAW // tried_on)
        setattr(law, ITS_SETTINGS, settings(asked, max_examples=min(asked.max_examples, fewer)))


def _told(config: pytest.Config, used: str) -> None:
    """Notes which servers this process uses, for the last lines of the run, which another process may write."""
    config.stash.setdefault(SERVERS_USED, []).append(used)
    output: dict[str, object] | None = getattr(config, "workeroutput", None)
    if output is not None:
        output["servers"] = used


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    used = getattr(node, "workeroutput", {}).get("servers")
    if used is not None:
        node.config.stash.setdefault(SERVERS_USED, []).append(used)


class OneProcessForAFile(LoadFileScheduling):  # type: ignore[misc]
    """With `-n`: tests of one file run in one process, and so do those of a folder that shares larger servers."""

    def _split_scope(self, nodeid: str) -> str:
        return shared_by(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling:
    # As they are sorted, not by numbers of tests: else files of few tests, which take minutes, come last.
    config.option.loadscopereorder = False
    return OneProcessForAFile(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for used in config.stash.get(SERVERS_USED, ["not asked for by any test of this run"]):
        terminalreporter.write_line(f"real Kafka and Redis: {used}")
