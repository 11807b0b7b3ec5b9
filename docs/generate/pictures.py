"""The pictures of the documents, and README's first table: `make pictures`, or `python -m docs.generate.pictures`.

Each is taken of the real thing: a terminal in which commands run, the report of a run, the page of a worker at work.
The last two are drawn by a browser; without one they are skipped, which is said, and the committed ones stay. A test
holds the first table and the terminal to what the commands print now.
"""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from io import StringIO
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import urlopen

from PIL import Image
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[2]
FOLDER, README = ROOT / "docs" / "pictures", ROOT / "README.md"
TERMINAL, REPORT, PAGE = FOLDER / "terminal.svg", FOLDER / "report.png", FOLDER / "page.png"

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER_SECONDS_MAX = 120
PAGE_SECONDS = 10
"""How long the page of a worker is shown before its picture is taken."""

COLOURS = 64
"""Of a picture of a page: enough for text and lines, and a third of the bytes."""

COLUMNS = 80
SOURCE, PUBLISHED = "eight/rows.csv", "anonymous.csv"
BEFORE = f"streamer anonymize --table eight {SOURCE} -o {PUBLISHED}"
SHOWN = ("streamer check --table eight --data eight/rows.csv --no-costs", BEFORE, f"cat {PUBLISHED}")
"""The calls of the terminal's picture."""

TIMES = (r"\b[0-9]+(\.[0-9]+)? s\b", "1 s")
"""What differs from run to run, and would make a picture of every run."""

FIRST_TABLE = re.compile(r"(?<=<!-- made by `make pictures` -->\n```text\n).*?(?=^```$)", re.M | re.S)
"""The block of README that `first_table` fills."""


def first_table() -> str:
    """A table before and after, side by side: the two files as they are."""
    with example() as folder:
        called(folder, BEFORE)
        before, after = ((folder / name).read_text("utf-8").splitlines() for name in (SOURCE, PUBLISHED))
    width = max(map(len, before)) + 4
    lines = zip_longest([f"examples/{SOURCE}", *before], [PUBLISHED, *after], fillvalue="")
    return "".join(f"{left:<{width}}{right}\n" for left, right in lines)


def terminal() -> str:
    """A terminal in which three commands ran, as SVG; it asks for no font from elsewhere."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    with example() as folder:
        for call in SHOWN:
            console.print(Text(f"$ {call}", style="bold cyan"))
            console.print(Text.from_ansi(re.sub(*TIMES, called(folder, call))))
    fonts = re.compile(r"\s*@font-face \{\{.*?\n    \}\}", re.S)
    return console.export_svg(title="streamer", code_format=fonts.sub("", CONSOLE_SVG_FORMAT), unique_id="terminal")


@contextmanager
def example() -> Iterator[Path]:
    """A folder that holds the example `eight`."""
    with TemporaryDirectory(prefix="streamer-pictures-") as made:
        shutil.copytree(ROOT / "examples" / "eight", Path(made, "eight"))
        yield Path(made)


def called(folder: Path, call: str) -> str:
    """What a call prints on a terminal that cannot move its cursor, so that no bar is drawn. Raises RuntimeError."""
    program, *words = call.split()
    command = [sys.executable, "-m", "streamer.cli.main"] if program == "streamer" else [program]
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "dumb", "COLUMNS": str(COLUMNS), "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([*command, *words], cwd=folder, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    written = b"".join(_read(ours))
    os.close(ours)
    if process.wait():
        raise RuntimeError(f"{call}: {written.decode()}")
    return written.decode().replace("\r\n", "\n")


def _read(terminal: int) -> Iterator[bytes]:
    """What is written to a terminal until nobody has it open any more."""
    try:
        while piece := os.read(terminal, 65536):
            yield piece
    except OSError:  # Linux: the last one has closed it
        return


# -- what a browser draws ---------------------------------------------------------------------------------------------


def browser() -> str | None:
    """A browser of this machine that can do without a screen."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def photographed(program: str, url: str, into: Path, size: tuple[int, int], seconds: float = 1) -> None:
    """Takes a picture of a page as it is after so many seconds. Raises CalledProcessError."""
    with TemporaryDirectory(prefix="streamer-browser-") as profile:
        words = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}"]
        words += [f"--window-size={size[0]},{size[1]}", f"--timeout={seconds * 1000:.0f}", f"--screenshot={into}", url]
        subprocess.run([program, *words], check=True, capture_output=True, timeout=BROWSER_SECONDS_MAX)
    with Image.open(into) as drawn:
        drawn.convert("RGB").quantize(COLOURS).save(into, optimize=True)


def report(program: str) -> None:
    """The beginning of the page that `anonymize --report` writes of the example's patients."""
    with TemporaryDirectory(prefix="streamer-pictures-") as made:
        shutil.copytree(ROOT / "examples" / "patients", Path(made, "patients"))
        called(Path(made), "streamer anonymize --table patients patients/rows.csv -o a.csv --report report.html")
        photographed(program, Path(made, "report.html").as_uri(), REPORT, (1000, 1100))


def page(program: str) -> None:
    """The page of a worker that has the demo's table, after its load and its first changes."""
    from streamer.cli.demo import command as demo
    from streamer.reader import Subscription

    with ExitStack() as stack, redirect_stdout(StringIO()):
        made = stack.enter_context(TemporaryDirectory(prefix="streamer-pictures-", ignore_cleanup_errors=True))
        stage = demo.stage_in(Path(made), stack, None)
        worker = stack.enter_context(demo.running(1, stage.path, stage.kafka, stage.redis))
        stage.workers.append(worker)
        reader = stack.enter_context(Subscription(stage.table, stage.kafka))
        demo.send(stage, reader, "load", stage.register.initial())
        demo.send(stage, reader, "changes", stage.register.mixed())
        look_at_all(worker.url)
        photographed(program, worker.url, PAGE, (1100, 900), PAGE_SECONDS)


def look_at_all(url: str) -> None:
    """Asks a worker until it has looked at the whole table; until then its page is grey."""
    for _ in range(PAGE_SECONDS):
        with urlopen(f"{url.rstrip('/')}/facts", timeout=PAGE_SECONDS) as answer:
            if json.load(answer)["verdict"]["ok"] is not None:
                return
        time.sleep(1)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    readme = README.read_text("utf-8")
    README.write_text(FIRST_TABLE.sub(lambda _: first_table(), readme, count=1), "utf-8")
    TERMINAL.write_text(terminal(), "utf-8")
    print(f"{README.name}\n{TERMINAL.relative_to(ROOT)}")
    program = browser()
    for draw, file in ((report, REPORT), (page, PAGE)):
        if program is None:
            print(f"{file.relative_to(ROOT)}: SKIPPED, it needs a browser: install chromium (Debian's name)")
            continue
        draw(program)
        print(file.relative_to(ROOT))


if __name__ == "__main__":
    main()
