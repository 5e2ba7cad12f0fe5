"""Both logs: producers, fencing, transactions, positions."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.support.logs import everything, new, values, wait_for_values

from towpath.errors import BadName, BadRecord, BadValue, LogError, ProducerFenced, UnknownPartition, UnknownTopic
from towpath.log import Log, NewRecord
from towpath.testing.clock import wait_until


def test_transaction_over_topics_and_positions_is_one(log: Log, name: str) -> None:
    for suffix in "ab":
        log.create_topic(f"{name}-{suffix}", 2)
    producer = log.producer(name)
    with producer.transaction() as tx:
        tx.append(f"{name}-a", new(b"1", b"2"))
        tx.append(f"{name}-b", new(b"3"))
        tx.commit_positions(name, {(f"{name}-a", 0): 7, (f"{name}-a", 1): 8})
        assert values(log, f"{name}-a") == []
        assert log.positions(name) == {}
    wait_for_values(log, f"{name}-a", b"1", b"2")
    wait_for_values(log, f"{name}-b", b"3")
    wait_until(lambda: log.positions(name) == {(f"{name}-a", 0): 7, (f"{name}-a", 1): 8}, what="positions")


def test_aborted_transaction_leaves_nothing_and_the_producer_goes_on(log: Log, name: str) -> None:
    log.create_topic(name, 1)
    producer = log.producer(name)
    with pytest.raises(ZeroDivisionError), producer.transaction() as tx:
        tx.append(name, new(b"lost"))
        tx.commit_positions(name, {(name, 0): 99})
        raise ZeroDivisionError
    with producer.transaction() as tx:
        tx.append(name, new(b"kept"))
    wait_for_values(log, name, b"kept")
    assert log.positions(name) == {}


def test_empty_transaction_is_none(log: Log, name: str) -> None:
    log.create_topic(name, 1)
    producer = log.producer(name)
    with producer.transaction():
        pass
    with producer.transaction() as tx:
        tx.append(name, [])
    assert values(log, name) == []


def test_newer_producer_of_the_name_fences_the_older(log: Log, make_log: Callable[..., Log], name: str) -> None:
    log.create_topic(name, 1)
    older = log.producer(name)
    with older.transaction() as tx:
        tx.append(name, new(b"before"))
    newer = make_log().producer(name)
    with pytest.raises(ProducerFenced) as refused, older.transaction() as tx:
        tx.append(name, new(b"from the dead"))
    assert refused.value.name == name
    with newer.transaction() as tx:
        tx.append(name, new(b"after"))
    with pytest.raises(LogError), older.transaction() as tx:
        tx.append(name, new(b"from the dead"))
    wait_for_values(log, name, b"before", b"after")


def test_producer_is_fenced_in_the_middle_of_its_transaction(log: Log, make_log: Callable[..., Log], name: str) -> None:
    log.create_topic(name, 1)
    older = log.producer(name)
    with pytest.raises(ProducerFenced), older.transaction() as tx:
        tx.append(name, new(b"half"))
        newer = make_log().producer(name)
        with newer.transaction() as other:
            other.append(name, new(b"whole"))
    wait_for_values(log, name, b"whole")


def test_producers_of_other_names_do_not_fence_each_other(log: Log, name: str) -> None:
    log.create_topic(name, 1)
    producers = [log.producer(f"{name}-{n}") for n in range(3)]
    for producer in producers:
        with producer.transaction() as tx:
            tx.append(name, new(producer.name.encode()))
    wait_for_values(log, name, *(producer.name.encode() for producer in producers))


def test_records_without_key_go_round_by_the_number_kept_with_the_producer(
    log: Log, make_log: Callable[..., Log], name: str
) -> None:
    """A successor goes on where the committed ones ended, so that a repeat goes to the same partition."""
    log.create_topic(name, 5)
    first = log.producer(name)
    with first.transaction() as tx:
        tx.append(name, new(b"0", b"1"))
        tx.append(name, [NewRecord(b"keyed", key=b"k")])
        tx.append(name, new(b"2"))
    with pytest.raises(KeyError), first.transaction() as tx:
        tx.append(name, new(b"aborted", b"aborted"))
        raise KeyError
    second = make_log().producer(name)
    with second.transaction() as tx:
        tx.append(name, new(b"3", b"4", b"5"))
    wait_until(lambda: len(values(log, name)) == 7, what="all records")
    numbered = {record.value: record.partition for record in everything(log, name) if record.key is None}
    assert numbered == {b"%d" % n: n % 5 for n in range(6)}
    assert not any(group.startswith("__") for group in log.groups())


def test_bad_input_in_a_transaction_is_refused_and_aborts_it(log: Log, name: str) -> None:
    log.create_topic(name, 1)
    producer = log.producer(name)
    for error, act in (
        (BadRecord, lambda tx: tx.append(name, [NewRecord(b"x", headers=(("ü", b""),))])),
        (UnknownTopic, lambda tx: tx.append(f"{name}-not-there", new(b"x"))),
        (UnknownPartition, lambda tx: tx.append(name, [NewRecord(b"x", partition=3)])),
        (UnknownPartition, lambda tx: tx.commit_positions(name, {(name, 3): 1})),
        (BadValue, lambda tx: tx.commit_positions(name, {(name, 0): -1})),
        (BadName, lambda tx: tx.commit_positions("__own", {(name, 0): 1})),
    ):
        with pytest.raises(error), producer.transaction() as tx:
            tx.append(name, new(b"with it"))
            act(tx)
    with producer.transaction() as tx:
        tx.append(name, new(b"good"))
    wait_for_values(log, name, b"good")


def test_closed_producer_writes_nothing_more(log: Log, name: str) -> None:
    log.create_topic(name, 1)
    producer = log.producer(name)
    producer.close()
    with pytest.raises(LogError), producer.transaction() as tx:
        tx.append(name, new(b"late"))
    assert values(log, name) == []


def test_producer_closed_in_its_own_transaction_writes_nothing(log: Log, name: str) -> None:
    log.create_topic(name, 1)
    producer = log.producer(name)
    with pytest.raises(LogError), producer.transaction() as tx:
        tx.append(name, new(b"late"))
        producer.close()
    with log.producer(name).transaction() as tx:
        tx.append(name, new(b"next"))
    wait_for_values(log, name, b"next")


def test_positions_of_groups_are_apart(log: Log, name: str) -> None:
    log.create_topic(name, 2)
    one, two = f"{name}-1", f"{name}-2"
    log.commit_positions(one, {(name, 0): 5, (name, 1): 0})
    log.commit_positions(two, {(name, 0): 6})
    log.commit_positions(one, {(name, 1): 9})
    assert log.positions(one) == {(name, 0): 5, (name, 1): 9}
    assert log.positions(two) == {(name, 0): 6}
    assert log.positions(f"{name}-3") == {}
    assert {one, two} <= set(log.groups())
    log.forget_group(one)
    log.forget_group(f"{name}-3")
    assert log.positions(one) == {}
    assert one not in log.groups()


@pytest.mark.parametrize("group", ["", "__own", "ü", "g" * 250])
def test_illegal_group_is_refused(group: str, log: Log, name: str) -> None:
    log.create_topic(name, 1)
    for act in (
        lambda: log.positions(group),
        lambda: log.commit_positions(group, {(name, 0): 1}),
        lambda: log.forget_group(group),
    ):
        with pytest.raises(BadName):
            act()


def test_negative_position_is_refused(log: Log, name: str) -> None:
    log.create_topic(name, 1)
    with pytest.raises(BadValue):
        log.commit_positions(name, {(name, 0): -1})
    assert log.positions(name) == {}


def test_what_is_committed_lies_before_the_written_end_though_somebody_else_holds_it_back(
    log: Log, make_log: Callable[..., Log], name: str
) -> None:
    log.create_topic(name, 1)
    other = make_log()
    with other.producer(f"{name}-slow").transaction() as slow:
        slow.append(name, new(b"slow"))
        slow.flush()
        with log.producer(f"{name}-quick").transaction() as quick:
            quick.append(name, new(b"quick"))
        held_back = log.written_ends(name)
    wait_for_values(log, name, b"quick", b"slow")
    [quick_at] = [record.offset for record in everything(log, name) if record.value == b"quick"]
    assert held_back[0] > quick_at
    assert log.written_ends(name)[0] >= log.ends(name)[0]
