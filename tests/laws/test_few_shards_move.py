"""Workers that join and leave: shards stay evenly spread, and no more of them move than that needs."""

from __future__ import annotations

from aiokafka.cluster import ClusterMetadata
from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from hypothesis import given
from hypothesis import strategies as st

from agents.input_reader import assignor

TOPIC = "people.changes"


class Topic(ClusterMetadata):
    """One topic of so many shards."""

    def __init__(self, shards: int) -> None:
        super().__init__()
        self._shards = shards

    def topics(self, exclude_internal_topics: bool = True) -> set[str]:
        return {TOPIC}

    def partitions_for_topic(self, topic: str) -> set[int]:
        return set(range(self._shards))


class Group:
    """Workers as Kafka's consumer group knows them: each sends what it was given last."""

    def __init__(self, shards: int) -> None:
        self.shards = shards
        self.workers: dict[str, type[AbstractPartitionAssignor]] = {}
        self.held: dict[str, set[int]] = {}

    def rebalance(self, workers: list[str]) -> int:
        """Has just these workers share the shards; returns how many moved from one of them to another."""
        self.workers = {name: self.workers.get(name) or assignor() for name in workers}
        members = {name: one.metadata([TOPIC]) for name, one in self.workers.items()}
        leader = next(iter(self.workers.values()))
        before = {shard: name for name in workers for shard in self.held.get(name, ())}
        for name, given_out in leader.assign(Topic(self.shards), members).items():
            told = ConsumerProtocolMemberAssignment.decode(given_out.encode())
            self.workers[name].on_assignment(told)
            self.held[name] = {place.partition for place in told.partitions()}
        return sum(shard not in self.held[name] for shard, name in before.items())


def moved_least(shards: int, held: list[int]) -> int:
    """How many shards have to leave workers that hold so many each, for all to have equally many."""
    least, more = divmod(shards, len(held))
    quotas = [least + (i < more) for i in range(len(held))]
    return sum(max(0, has - quota) for has, quota in zip(sorted(held, reverse=True), quotas, strict=True))


@given(st.integers(1, 24), st.lists(st.sets(st.sampled_from("abcdef"), min_size=1), min_size=2, max_size=6))
def test_no_more_shards_move_than_an_even_share_needs(shards: int, groups: list[set[str]]) -> None:
    group = Group(shards)
    for workers in groups:
        for gone in group.workers.keys() - workers:
            group.held.pop(gone, None)
        needed = moved_least(shards, [len(group.held.get(name, ())) for name in workers])
        assert group.rebalance(sorted(workers)) == needed
        sizes = [len(group.held[name]) for name in workers]
        assert (sum(sizes), max(sizes) - min(sizes) <= 1) == (shards, True)
        assert set().union(*(group.held[name] for name in workers)) == set(range(shards))


def test_a_third_worker_gets_five_of_sixteen_shards() -> None:
    """Before: ten moved."""
    group = Group(16)
    moved = [group.rebalance(workers) for workers in (["b"], ["b", "c"], ["a", "b", "c"], ["a", "c"])]
    assert moved == [0, 8, 5, 0]
