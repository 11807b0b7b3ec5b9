"""What a history of Adult gives away to an adversary who keeps all of it: live, in batches and sealed.

20,000 of Adult's people at first; then 10,000 come while 5,000 go, 2,500 get another occupation and 2,500 other
quasi-identifiers, in a mixed order. Occupation is sensitive, the other eight columns are quasi-identifiers. Sealed:
epochs of 1,000 row changes, alpha 0.5. The figures are those that `streamer audit --compare` prints of these files.

    python benchmarks/sealed_history.py [--k 5 10] [--quick] [--json]
"""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from rich.console import Console
from rich.table import Table as RichTable

import adult
import ready

Person = dict[str, str]

SENSITIVE = "occupation"
ROWS, COME, GO, CHANGE = 20_000, 10_000, 5_000, 5_000
CHANGED = ("inserted", "deleted", "modified")
SHOWN = ("way", "episodes", "pinned", "worst", "mean", "linked_rows", "published_rows", "delay", "loss", "records")


def main() -> None:
    options = ready.options(__doc__, "a twentieth of the people and events")
    options.add_argument("--k", type=int, nargs="+", default=[5, 10])
    chosen = options.parse_args()
    share, results = (20 if chosen.quick else 1), []
    for k in chosen.k:
        with TemporaryDirectory() as folder:
            write(Path(folder), k, share)
            begun = perf_counter()
            ways = compared(Path(folder))
            if ways[0]["published_rows"] < 0.99 * (ROWS + COME - GO) / share:
                raise SystemExit("events were refused: these are not the figures of this stream")
            results.append({"k": k, "seconds": round(perf_counter() - begun), "ways": ways})
        if not chosen.json:
            show(results[-1])
    print(json.dumps({"benchmark": "sealed_history", "rows": ROWS // share, "results": results}))


def write(folder: Path, k: int, share: int) -> None:
    """A table, its first rows, and what happens to them."""
    with open(adult.folder() / "adult.csv", newline="") as file:
        people = [{"id": str(i), **row} for i, row in enumerate(csv.DictReader(file, delimiter=";"))]
    random.Random(1).shuffle(people)
    first, coming = people[: ROWS // share], people[ROWS // share : (ROWS + COME) // share]
    columns = [
        "  age: {role: quasi-identifier, type: integer, domain: [17, 90]}",
        f"  {SENSITIVE}: {{role: sensitive}}",
    ]
    for name in (name for name in people[0] if name not in ("id", "age", SENSITIVE)):
        columns.append(f"  {name}: {{role: quasi-identifier, hierarchy: '{adult.folder()}/hierarchies/{name}.csv'}}")
    publish = f"publish: {{live: {{form: rows}}, sealed: {{epoch: {1_000 // share} events, alpha: 0.5}}}}"
    text = "\n".join(["table: adult", "key: id", "columns:", *columns, f"privacy: {{k: {k}}}", publish])
    (folder / "table.yaml").write_text(text + "\n")
    with open(folder / "rows.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, people[0])
        writer.writeheader()
        writer.writerows(first)
    (folder / "events.jsonl").write_text("".join(json.dumps(one) + "\n" for one in happening(first, coming, share)))


def happening(first: list[Person], coming: list[Person], share: int) -> list[dict[str, Any]]:
    """The events in a mixed order."""
    rng = random.Random(2)
    kinds = ["come"] * len(coming) + ["go"] * (GO // share) + ["occupation", "other"] * (CHANGE // share // 2)
    rng.shuffle(kinds)
    there, new, events = {one["id"]: one for one in first}, iter(coming), list[dict[str, Any]]()
    keys = list(there)
    for kind in kinds:
        at = rng.randrange(len(keys))
        key = keys[at]
        if kind == "come":
            person = next(new)
            there[person["id"]] = person
            keys.append(person["id"])
            events.append({"op": "insert", "row": as_json(person)})
        elif kind == "go":
            keys[at] = keys[-1]
            keys.pop()
            del there[key]
            events.append({"op": "delete", "key": key})
        else:
            other = rng.choice(first)
            while other[SENSITIVE] == there[key][SENSITIVE]:
                other = rng.choice(first)
            names = [SENSITIVE] if kind == "occupation" else [name for name in other if name not in ("id", SENSITIVE)]
            changed = {name: other[name] for name in names}
            there[key] = {**there[key], **changed}
            events.append({"op": "modify", "key": key, "row": as_json(changed)})
    return events


def as_json(row: Person) -> dict[str, Any]:
    return {name: int(text) if name == "age" else text for name, text in row.items()}


def compared(folder: Path) -> list[dict[str, Any]]:
    command = [
        "audit",
        "--table",
        folder,
        "--compare",
        "--source",
        folder / "events.jsonl",
        "--initial",
        folder / "rows.csv",
    ]
    call = [sys.executable, "-m", "streamer.cli.main", *map(str, command), "--json"]
    told = subprocess.run(call, check=True, capture_output=True, text=True).stdout
    ways: list[dict[str, Any]] = json.loads(told)["ways"]
    return ways


def show(result: dict[str, Any]) -> None:
    table = RichTable(*SHOWN, title=f"k = {result['k']}, {result['seconds']} s")
    for way in result["ways"]:
        table.add_row(*(f"{way[name]:,.4g}" if isinstance(way[name], float) else f"{way[name]}" for name in SHOWN))
    Console().print(table)
    for way in result["ways"]:
        known = (f"{name} {way['kinds'][name]['pinned']} of {way['kinds'][name]['episodes']}" for name in CHANGED)
        Console().print(f"{way['way']}: known for certain of those who were", ", ".join(known))


if __name__ == "__main__":
    main()
