"""Both logs: topics, their identity and their partitions."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.support.logs import everything, new, values
from tests.support.sweep import sweep

from towpath.errors import BadName, BadValue, TopicExists, UnknownPartition, UnknownTopic
from towpath.log import Log, NewRecord
from towpath.testing.clock import wait_until


def test_topic_is_as_it_was_made(log: Log, name: str) -> None:
    made = log.create_topic(name, 3, retention_s=3600)
    assert (made.name, made.partitions, made.retention_s) == (name, 3, 3600)
    assert log.topic(name) == made
    assert made in log.topics()
    assert log.starts(name) == log.ends(name) == {0: 0, 1: 0, 2: 0}


def test_settings_decide_what_is_not_said(make_log: Callable[..., Log], name: str) -> None:
    made = make_log(partitions=5, retention_s="never").create_topic(name)
    assert (made.partitions, made.retention_s) == (5, None)


def test_all_topics_are_listed_by_name_and_no_others(log: Log, name: str) -> None:
    for suffix in "cab":
        log.create_topic(f"{name}-{suffix}", 1)
    listed = [topic.name for topic in log.topics() if topic.name.startswith(name)]
    assert listed == [f"{name}-a", f"{name}-b", f"{name}-c"]
    assert not any(topic.name.startswith("__") for topic in log.topics())


def test_name_is_taken_once(log: Log, name: str) -> None:
    first = log.create_topic(name, 1)
    with pytest.raises(TopicExists) as refused:
        log.create_topic(name, 2)
    assert refused.value.name == name
    assert log.topic(name) == first


def test_topic_made_again_is_another_topic(log: Log, make_log: Callable[..., Log], name: str) -> None:
    first = log.create_topic(name, 2)
    log.append(name, new(b"old", key=b"k"))
    log.commit_positions("readers", {(name, 0): 1})
    log.delete_topic(name)
    second = make_log().create_topic(name, 2)
    assert second.id != first.id
    assert values(log, name) == []
    assert log.ends(name) == {0: 0, 1: 0}
    wait_until(lambda: log.positions("readers") == {}, what="positions in the old topic are gone")


@sweep(
    "act",
    [
        lambda log, name: log.topic(name),
        lambda log, name: log.delete_topic(name),
        lambda log, name: log.add_partitions(name, 5),
        lambda log, name: log.append(name, new(b"v")),
        lambda log, name: log.starts(name),
        lambda log, name: log.ends(name),
        lambda log, name: log.read(name, 0, 0),
        lambda log, name: log.record(name, 0, 0),
        lambda log, name: log.offsets_at(name, 0),
        lambda log, name: log.delete_before(name, {0: 0}),
        lambda log, name: log.commit_positions("g", {(name, 0): 0}),
    ],
)
def test_topic_that_is_not_there_is_an_error_everywhere(act: Callable[[Log, str], object], log: Log, name: str) -> None:
    with pytest.raises(UnknownTopic) as refused:
        act(log, name)
    assert refused.value.name == name


@sweep("bad", ["", "..", "no spaces", "slash/ed", "ü", "x" * 250])
def test_illegal_name_is_refused(bad: str, log: Log) -> None:
    with pytest.raises(BadName):
        log.create_topic(bad, 1)


@sweep("count", [0, -1, 10_001])
def test_illegal_number_of_partitions_is_refused(count: int, log: Log, name: str) -> None:
    with pytest.raises(BadValue):
        log.create_topic(name, count)
    with pytest.raises(UnknownTopic):
        log.topic(name)


def test_partitions_can_be_added_and_are_used(log: Log, make_log: Callable[..., Log], name: str) -> None:
    """Also by another process that was there before."""
    other = make_log()
    first = log.create_topic(name, 1)
    other.append(name, new(b"before"))
    grown = log.add_partitions(name, 3)
    assert (grown.id, grown.partitions) == (first.id, 3)
    assert log.add_partitions(name, 3) == grown

    def has_used_all() -> bool:
        other.append(name, new(b"x", b"y", b"z"))
        return all(other.ends(name).get(number, 0) > 0 for number in range(3))

    wait_until(has_used_all, what="new partitions are used")
    assert everything(other, name)[0].value == b"before"


def test_who_has_seen_a_new_partition_knows_its_offsets(log: Log, make_log: Callable[..., Log], name: str) -> None:
    """Also right after it has asked for those of the others."""
    other = make_log()
    log.create_topic(name, 1)
    assert other.ends(name) == {0: 0}
    log.add_partitions(name, 2)
    assert other.topic(name).partitions == 2
    assert other.starts(name) == other.ends(name) == other.offsets_at(name, 0) == {0: 0, 1: 0}


def test_partitions_cannot_be_made_fewer(log: Log, name: str) -> None:
    log.create_topic(name, 3)
    with pytest.raises(BadValue, match="fewer"):
        log.add_partitions(name, 2)
    assert log.topic(name).partitions == 3


@pytest.mark.parametrize("number", [-1, 2, 1 << 40])
def test_partition_that_is_not_there_is_an_error(number: int, log: Log, name: str) -> None:
    log.create_topic(name, 2)
    for act in (
        lambda: log.read(name, number, 0),
        lambda: log.record(name, number, 0),
        lambda: log.delete_before(name, {number: 0}),
        lambda: log.commit_positions("g", {(name, number): 0}),
        lambda: log.append(name, [NewRecord(b"v", partition=number)]),
    ):
        with pytest.raises(UnknownPartition) as refused:
            act()
        assert refused.value.partitions == 2
    assert log.ends(name) == {0: 0, 1: 0}
