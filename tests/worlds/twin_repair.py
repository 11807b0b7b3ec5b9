"""Local repair of the brute-force twin: every row of every group is tried against every other group.

The rules are those of `streamer.incremental.core.repair`, written a second time in plain Python.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from worlds.twin import Box, Twin

NEAREST, ROWS_AT_MOST, SPENT_PER_K = 8, 64, 16
NEIGHBOURS, ROWS_TOGETHER = 4, 256

INFINITY = float("inf")


@dataclass
class Move:
    spent: int
    received: set[int]
    freed: list[int]


def again(twin: Twin, number: int, rows: int) -> int:
    """Rows that are published again: none more where all of them are."""
    return 0 if number in twin.box_event else rows


def move_cost(twin: Twin, key: str, number: int) -> float:
    """What it costs that a row joins a group."""
    group = twin.groups[number]
    n, box = len(group.members), twin.grow(group.box, twin.cells(key))
    if box == group.box:
        return twin.ncp(box) + twin.table.repair * again(twin, number, 1)
    return (n + 1) * twin.ncp(box) - n * twin.ncp(group.box) + twin.table.repair * again(twin, number, n + 1)


def ncp_without(twin: Twin, key: str, number: int) -> float:
    return twin.ncp(twin.box([other for other in twin.groups[number].members if other != key]))


def holds_without(twin: Twin, key: str, number: int) -> bool:
    """Whatever individual goes with the row, one less is asked for."""
    members = twin.groups[number].members
    return twin.count(members) > twin.table.k and twin.holds([other for other in members if other != key])


def can_lose(twin: Twin, key: str, number: int) -> bool:
    members = twin.groups[number].members
    if twin.table.individual is not None:
        who = twin.rows[key].individual
        if sum(twin.rows[other].individual == who for other in members) > 1:
            return False
    return holds_without(twin, key, number)


def can_take(twin: Twin, keys: list[str], number: int) -> bool:
    return twin.holds([*twin.groups[number].members, *keys])


def cheapest_group(twin: Twin, key: str, number: int) -> tuple[float, int] | None:
    """The least cost in another group that can take the row, and that group."""
    others = [other for other in twin.groups if other != number and can_take(twin, [key], other)]
    if not others:
        return None
    best = min(others, key=lambda other: (move_cost(twin, key, other), *twin.tie(other)))
    return move_cost(twin, key, best), best


def order(twin: Twin, key: str, number: int) -> tuple[Any, ...]:
    return twin.cells(key), twin.lot_in_cut(key, number)


def move(twin: Twin, key: str, to: int) -> None:
    twin.leave(key)
    twin.join_group(key, to)


def nearest(twin: Twin, number: int) -> list[int]:
    """All other groups, those of highest QGSSD first; equal ones by number."""
    box = twin.groups[number].box
    return sorted((n for n in twin.groups if n != number), key=lambda n: (-twin.qgssd(box, twin.groups[n].box), n))


def adopt(twin: Twin, number: int) -> int | None:
    """A group that does not hold takes the row that it is short of from one of the nearest; the group that gave it."""
    price, found = twin.table.repair, []
    for index, other in enumerate(nearest(twin, number)[:NEAREST]):
        group = twin.groups[other]
        n = len(group.members)
        for key in group.members:
            if can_take(twin, [key], number) and can_lose(twin, key, other):
                stays = price * again(twin, other, 2) - twin.ncp(group.box)
                shrinks = price * again(twin, other, n) + (
                    (n - 1) * ncp_without(twin, key, other) - n * twin.ncp(group.box)
                )
                cost = min(stays, shrinks) + move_cost(twin, key, number)
                found.append((cost, index, order(twin, key, other), key, other, shrinks < stays))
    if not found:
        return None
    *_, key, other, shrinks = min(found)
    move(twin, key, number)
    if shrinks:
        twin.set_box(other, twin.box(twin.groups[other].members))
    return other


def improve(twin: Twin, number: int) -> Move | None:
    """What local repair does to one of the groups that an event has touched."""
    if len(twin.groups) == 1:
        return None
    for way in (evict, dissolve, recut_with_neighbour):
        if move := way(twin, number):
            twin.repaired[way.__name__] += 1
            return move
    return None


def evict(twin: Twin, number: int) -> Move | None:
    group, price, found = twin.groups[number], twin.table.repair, []
    n, ncp = len(group.members), twin.ncp(group.box)
    rows = again(twin, number, n)
    for key in group.members:
        leaves = can_lose(twin, key, number) and ncp_without(twin, key, number) < ncp
        if leaves and (taker := cheapest_group(twin, key, number)):
            cost, to = taker
            gain = n * ncp - (n - 1) * ncp_without(twin, key, number) - price * rows - cost
            if gain > 0:
                found.append((-gain, order(twin, key, number), key, to))
    if not found:
        return None
    *_, key, to = min(found)
    spent = 1 + rows + again(twin, to, len(twin.groups[to].members))
    move(twin, key, to)
    twin.set_box(number, twin.box(group.members))
    return Move(spent, {to}, [])


def dissolve(twin: Twin, number: int) -> Move | None:
    group, price = twin.groups[number], twin.table.repair
    keys = sorted(group.members, key=lambda key: order(twin, key, number))
    if len(keys) > ROWS_AT_MOST or any(holds_without(twin, key, number) for key in keys):
        return None
    spent = again(twin, number, len(keys))
    gain = len(keys) * twin.ncp(group.box) - price * spent
    boxes: dict[int, Box] = {}
    came: dict[int, int] = {}
    ways = []
    for key in keys:
        if gain <= 0:
            return None
        cost, to = cheapest_group(twin, key, number) or (INFINITY, 0)
        if cost > gain:
            return None
        was, n = boxes.get(to, twin.groups[to].box), len(twin.groups[to].members) + came.get(to, 0)
        now = twin.grow(was, twin.cells(key))
        if to in came:
            rows = 1 if now == was or was != twin.groups[to].box else n + 1
            loss = twin.ncp(was) if now == was else (n + 1) * twin.ncp(now) - n * twin.ncp(was)
            cost = loss + price * again(twin, to, rows)
        gain -= cost
        boxes[to], came[to] = now, came.get(to, 0) + 1
        ways.append((key, to))
        spent += again(twin, to, len(twin.groups[to].members))
    if gain <= 0 or not all(can_take(twin, [key for key, at in ways if at == to], to) for to in came):
        return None
    for key, to in ways:
        move(twin, key, to)
    del twin.groups[number]
    return Move(1 + spent, set(came), [number])


def recut_with_neighbour(twin: Twin, number: int) -> Move | None:
    found = []
    for index, other in enumerate(nearest(twin, number)[:NEIGHBOURS]):
        one, two = twin.groups[number], twin.groups[other]
        together = [*one.members, *two.members]
        halves = twin.cut_of(together, number) if len(together) <= ROWS_TOGETHER else None
        if halves is not None:
            rows = again(twin, number, len(one.members)) + again(twin, other, len(two.members))
            loss = len(one.members) * twin.ncp(one.box) + len(two.members) * twin.ncp(two.box)
            gain = loss - twin.table.repair * rows - twin.loss(*halves)
            if gain > 0:
                found.append((-gain, index, other, halves, rows))
    if not found:
        return None
    _, _, other, (larger, smaller), rows = min(found)
    first, second = sorted((number, other), key=lambda n: (-len(twin.groups[n].members), n))
    twin.form(first, larger)
    twin.form(second, smaller)
    return Move(1 + rows, {number, other}, [])
