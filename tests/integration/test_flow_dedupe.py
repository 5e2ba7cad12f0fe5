"""What a sender sends twice is loaded once, over batches, partitions, restarts and both logs."""

from __future__ import annotations

from collections import Counter

from tests.support.flows import World
from tests.support.numbered import Sent, loaded, orders, send


def test_what_was_sent_before_is_dropped_and_counted(world: World) -> None:
    """Several senders over two partitions; repeats within a batch, in a later one, and after a restart."""
    flow = orders(world.home)
    first = [Sent("a", 1, "a1"), Sent("b", 1, "b1"), Sent("a", 2, "a2", partition=1), Sent("a", 1, "again")]
    send(world, first)
    world.run(flow)
    assert loaded(world.home) == ["a1", "a2", "b1"]
    send(world, [Sent("a", 2, "again"), Sent("a", 3, "a3"), Sent("b", 3, "b3"), Sent("b", 2, "b2"), Sent("b", 1, "no")])
    world.run(flow)
    assert loaded(world.home) == ["a1", "a2", "a3", "b1", "b2", "b3"]
    assert world.counts(flow) == Counter(read=9, loaded=6, delivered=6, duplicate=3)
    assert world.errors(flow) == []
