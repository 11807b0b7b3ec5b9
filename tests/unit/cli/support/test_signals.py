"""SIGTERM ends a command, and leaves nothing half done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from time import monotonic, sleep

import pytest

from streamer.cli.support.signals import StopSign, interruptible, terminated_in_order
from streamer.uninterrupted import ENDS, uninterrupted
from worlds.checkout import PATIENTS, ROOT

SECONDS_MAX = 120.0
INTERRUPTED = 130

STORY = """
import os, signal, sys
signal.signal({number:d}, signal.SIG_DFL)  # whoever runs the tests may ignore it, as nohup does
from streamer.cli.support.signals import terminated_in_order
{before}
with terminated_in_order():
    try:
        print("in hand")
        os.kill(os.getpid(), {number:d})
        print("goes on")
    finally:
        print("put in order")
        {at_end}
"""


def story(before: str = "", at_end: str = "", number: int = signal.SIGTERM) -> subprocess.CompletedProcess[str]:
    code = STORY.format(before=before, at_end=at_end, number=number)
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=SECONDS_MAX)


@pytest.mark.parametrize("number", ENDS)
def test_what_is_in_hand_is_put_in_order_and_the_process_ends_by_the_signal(number: int) -> None:
    """SIGHUP is a terminal that is closed, and left raw rows in the spill folder."""
    ended = story(number=number)
    assert (ended.returncode, ended.stdout) == (-number, "in hand\nput in order\n")


def test_an_error_on_the_way_does_not_change_how_it_ends() -> None:
    assert story(at_end="raise KeyError").returncode == -signal.SIGTERM


def test_whoever_may_have_lost_the_exception_can_ask_whether_one_has_come() -> None:
    ended = story(before="from streamer.uninterrupted import told_to_end", at_end="print(told_to_end.is_set())")
    assert ended.stdout == "in hand\nput in order\nTrue\n"


def test_the_second_one_ends_the_process_on_the_spot() -> None:
    ended = story(at_end="sys.stdout.flush(); os.kill(os.getpid(), signal.SIGTERM); print('goes on', flush=True)")
    assert (ended.returncode, ended.stdout) == (-signal.SIGTERM, "in hand\nput in order\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_in_a_call_that_must_not_be_interrupted_takes_effect_after_it(number: int) -> None:
    steps = []

    def heard(_number: int, _frame: object) -> None:
        raise InterruptedError

    former = signal.signal(number, heard)
    try:
        with pytest.raises(InterruptedError), uninterrupted():
            os.kill(os.getpid(), number)
            steps.append("done")
        steps.append("interrupted after it")
        with uninterrupted():
            steps.append("the next one is not")
    finally:
        signal.signal(number, former)
    assert steps == ["done", "interrupted after it", "the next one is not"]


def test_where_it_is_ignored_it_stays_so() -> None:
    ended = story(before="signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    assert (ended.returncode, ended.stdout) == (0, "in hand\ngoes on\nput in order\n")


def test_a_program_that_listens_to_it_goes_on_listening() -> None:
    def heard(*_: object) -> None: ...

    before = signal.signal(signal.SIGTERM, heard)
    try:
        with terminated_in_order():
            assert signal.getsignal(signal.SIGTERM) is heard
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_thread_beside_the_first_one_takes_no_signals() -> None:
    before, seen = signal.signal(signal.SIGTERM, signal.SIG_DFL), []

    def call() -> None:
        with terminated_in_order():
            seen.append(signal.getsignal(signal.SIGTERM))

    try:
        beside = Thread(target=call)
        beside.start()
        beside.join()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert seen == [signal.SIG_DFL]


COMPUTING = """
import os, signal
from hashlib import pbkdf2_hmac
from threading import Timer
from streamer.cli.support.signals import INTERRUPTED, interruptible, terminated_in_order
Timer(0.2, os.kill, [os.getpid(), signal.{name}]).start()
with terminated_in_order():
    try:
        interruptible(lambda: pbkdf2_hmac("sha256", b"", b"", 50_000_000))
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED)
    finally:
        print("put in order")
"""
"""A call that takes a minute and looks at no signal, like one of compiled code."""


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", -signal.SIGTERM), ("SIGINT", INTERRUPTED)])
def test_a_long_call_of_compiled_code_holds_no_signal_up(name: str, code: int) -> None:
    began = monotonic()
    ended = subprocess.run(
        [sys.executable, "-c", COMPUTING.format(name=name)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
    )
    assert (ended.returncode, ended.stdout) == (code, "put in order\n"), ended.stderr
    assert monotonic() - began < 15


def test_what_an_interruptible_call_gives_or_raises_is_that_of_the_call() -> None:
    assert interruptible(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 // 0)


IN_C = """
import os, signal
import streamer.cli.batch.check as check
from streamer.cli.main import main
def check_table(*_, **named):
    try:
        os.kill(os.getpid(), signal.{name})
    except BaseException as stop:
        raise SystemError("returned a result with an exception set") from stop
check.load_table = check_table
main(["check", "--table", "nowhere"])
"""


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", -signal.SIGTERM), ("SIGINT", INTERRUPTED)])
def test_a_signal_of_which_code_in_c_makes_an_error_is_no_unexpected_error(name: str, code: int) -> None:
    program = [sys.executable, "-c", IN_C.format(name=name)]
    ended = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS_MAX)
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, "", "")


# -- commands that write files --------------------------------------------------------------------------------------


def until(holds: Callable[[], bool]) -> None:
    deadline = monotonic() + SECONDS_MAX
    while not holds():
        assert monotonic() < deadline
        sleep(0.02)


@pytest.mark.parametrize(
    ("command", "files", "number", "code"),
    [
        ("anonymize", ("out.csv", "report.html", "index.csv"), signal.SIGTERM, -signal.SIGTERM),
        ("anonymize", ("out.csv", "report.html"), signal.SIGINT, INTERRUPTED),
        ("compare", ("report.html",), signal.SIGTERM, -signal.SIGTERM),
    ],
)
def test_a_command_that_is_ended_leaves_no_drafts_beside_its_files(
    command: str, files: tuple[str, ...], number: signal.Signals, code: int, tmp_path: Path
) -> None:
    """Its rows come from a pipe without a writer: it waits with its files begun."""
    pipe, out = tmp_path / "rows.csv", tmp_path / "out"
    os.mkfifo(pipe)
    out.mkdir()
    outputs = [word for name in files for word in (f"--{Path(name).stem}", str(out / name))]
    words = [sys.executable, "-m", "streamer.cli.main", command, str(pipe), "--table", str(PATIENTS), *outputs]
    running = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        until(lambda: len(list(out.iterdir())) == len(files) or running.poll() is not None)
        running.send_signal(number)
        said, _ = running.communicate(timeout=SECONDS_MAX)
        assert (running.returncode, list(out.iterdir())) == (code, []), said
    finally:
        running.kill()


# Ctrl-C between two pieces of work instead of within one.


def test_without_ctrl_c_every_piece_is_done() -> None:
    assert list(StopSign().until_up(range(5))) == [0, 1, 2, 3, 4]


def test_the_piece_in_hand_is_done_and_no_other_is_begun() -> None:
    stop, done = StopSign(), []
    with stop.watched():
        for piece in stop.until_up(range(5)):
            if piece == 2:
                os.kill(os.getpid(), signal.SIGINT)
            done.append(piece)
    assert done == [0, 1, 2]
    assert stop.is_up


def test_a_wait_for_the_next_piece_ends_at_once() -> None:
    stop = StopSign()

    def pieces() -> Iterator[int]:
        yield 1
        stop.press()
        yield 2  # never reached

    assert list(stop.until_up(pieces())) == [1]
    assert stop.is_up


def test_the_second_ctrl_c_ends_everything() -> None:
    stop = StopSign()
    stop.press()
    with pytest.raises(KeyboardInterrupt):
        stop.press()


def test_a_sleep_ends_with_ctrl_c() -> None:
    stop = StopSign()
    stop.press()
    stop.sleep(3_600)


def test_behind_the_work_ctrl_c_is_what_it_was() -> None:
    before = signal.getsignal(signal.SIGINT)
    with StopSign().watched():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before
