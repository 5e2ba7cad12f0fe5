"""What a join on columns says about each record, what it keeps, and what leaves it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.column_join import REENTRY, Joining, Row, order, pairs, payment

from towpath.flow.delivery.places import RecordPlace
from towpath.flow.failures import ErrorCode
from towpath.flow.records.reentry import (
    INPUT_OFFSET,
    INPUT_PARTITION,
    INPUT_TIMESTAMP,
    INPUT_TOPIC,
    INPUT_TOPIC_ID,
    STAGE,
)
from towpath.flow.stateful import header, key
from towpath.flow.stateful.column_join import with_left
from towpath.flow.stateful.join import JOINED
from towpath.flow.stateful.operators import JUDGED
from towpath.flow.worker.records import VERDICT, RecordVerdict


def back(row: Row, *more: tuple[str, bytes], at: int = 0) -> Row:
    """A record that comes back to the stage."""
    said = {
        STAGE: "both-stage",
        INPUT_TOPIC: row.topic,
        INPUT_TOPIC_ID: "id",
        INPUT_PARTITION: "0",
        INPUT_OFFSET: str(row.offset),
        INPUT_TIMESTAMP: str(row.timestamp_ms),
    }
    headers = tuple((name, text.encode()) for name, text in said.items())
    return row._replace(topic=REENTRY, offset=at, headers=(*row.headers, *headers, *more))


def only(said: list[RecordVerdict | None]) -> RecordVerdict:
    [verdict] = said
    assert verdict is not None
    return verdict


def test_every_order_with_every_payment() -> None:
    """Who comes later has the documents; the others were waiting until their first partner came."""
    joining = Joining.of()
    assert [each.place for each in filter(None, joining.run(order(1, 7, 0), order(2, 7, 5)))] == [
        RecordPlace.JOINING
    ] * 2
    verdict = only(joining.run(payment(1, 7.0, 10)))
    assert pairs([verdict]) == [(1, 1), (2, 1)]
    assert verdict.moves == {RecordPlace.JOINING: -2, RecordPlace.AGGREGATED: 2}
    verdict = only(joining.run(payment(2, 7, 15)))
    assert pairs([verdict]) == [(2, 2)]
    assert verdict.moves is None, "the order has left the place joining before"
    assert joining.kept == 4
    waiting = [RecordVerdict(RecordPlace.JOINING, seen={"both/payment": 16}), RecordVerdict(RecordPlace.JOINING)]
    assert joining.run(payment(3, "7", 5), payment(4, 7, 16)) == waiting


def test_what_is_joined_in_one_batch() -> None:
    said = Joining.of().run(payment(1, 7, 0), order(1, 7, 0), payment(2, 7, 0), order(2, 8, 0))
    assert pairs(said) == [(1, 1), (1, 2)]


def test_documents_are_as_they_were_read() -> None:
    """With the order of the inputs and numbers that a double does not hold."""
    joining = Joining.of()
    joining.run(Row("payments", 1, b'{"id": 1, "at": 0, "cents": 123456789012345678901234567890}'))
    verdict = only(joining.run(Row("orders", 1, b'{"id": 1.0, "at": 0, "price": 1.10}')))
    assert verdict.given is not None
    assert [*verdict.given[0]] == ["order", "payment"]
    assert verdict.given[0]["payment"]["cents"] == 123456789012345678901234567890
    assert b'"price": 1.10' in (verdict.value or b"")


@pytest.mark.parametrize(
    ("row", "name", "message"),
    [
        (order(1, None, 0), "NoKey", "no field('$.id')"),
        (Row("orders", 1, {"at": 0}), "NoKey", "no field('$.id')"),
        (order(1, [1], 0), "NoKey", "no field('$.id')"),
        (order(1, 7, None), "NoTime", "no field('$.at')"),
        (order(1, 7, "noon"), "NoTime", "expected timestamp"),
    ],
)
def test_a_record_without_column_or_time_fails_and_comes_back_as_new(row: Row, name: str, message: str) -> None:
    joining = Joining.of()
    failure = only(joining.run(row)).failure
    assert failure is not None
    assert (failure.code, failure.step, failure.exception) == (ErrorCode.NOT_VALID, "both", name)
    assert message in failure.message
    mended = row._replace(value={"id": 7, "at": 0, "o": 1})
    assert only(joining.run(back(mended))).place == RecordPlace.JOINING
    assert pairs(joining.run(payment(1, 7, 0))) == [(1, 1)]


def test_what_cannot_be_read_goes_on_to_fail_where_it_is_read() -> None:
    joining = Joining.of(max_bytes=50)
    rows = [Row("orders", 1, b"{"), Row("orders", 2, b'{"id": 1, "id": 1, "at": 0}'), order(3, 7, 0, long="x" * 50)]
    assert joining.run(*rows) == [None] * 3
    assert joining.kept == 0


def test_records_of_others_pass() -> None:
    joining = Joining.of()
    elsewhere = back(order(1, 7, 0))._replace(headers=((STAGE, b"other"), (INPUT_TOPIC, b"orders")))
    assert joining.run(Row("other", 1, {"id": 7, "at": 0}), elsewhere, Row(REENTRY, 5, b"{}")) == [None] * 3


@pytest.mark.parametrize(
    ("late", "expected"), [("error", {"Late": 1}), ("drop", {"filtered": 1}), ("take", {"joining": 1})]
)
def test_behind_the_watermark(late: Any, expected: dict[str, int]) -> None:
    """At the watermark it is not late."""
    joining = Joining.of(late=late)
    joining.run(order(1, 7, 99), watermark=100)
    assert +joining.places == expected
    joining.run(order(2, 8, 100), watermark=100)
    assert joining.places["joining"] == expected.get("joining", 0) + 1


def test_what_comes_back_is_taken_though_it_is_late() -> None:
    """Else a person could replay it for ever. Two that come back find each other, in different batches too."""
    joining = Joining.of()
    assert only(joining.run(back(order(1, 7, 1)), watermark=1000)).place == RecordPlace.JOINING
    assert pairs(joining.run(back(payment(1, 7, 2)), watermark=1010)) == [(1, 1)]


def test_time_of_the_record_itself() -> None:
    """Of what comes back, that of its first reading."""
    joining = Joining.of(time=None)
    joining.run(Row("orders", 1, {"id": 7, "o": 1}, timestamp_ms=5))
    assert pairs(joining.run(Row("payments", 1, {"id": 7, "p": 1}, timestamp_ms=16))) == []
    again = back(Row("payments", 2, {"id": 7, "p": 2}, timestamp_ms=15))._replace(timestamp_ms=99)
    assert pairs(joining.run(again)) == [(1, 2)]


def test_columns_of_different_kinds() -> None:
    joining = Joining.of(on={"order": (key(), header("h")), "payment": (header("h"), key())}, time=None)
    joining.run(Row("orders", 1, {"o": 1}, key=b"a", headers=(("h", b"b"),)))
    assert pairs(joining.run(Row("payments", 1, {"p": 1}, key=b"b", headers=(("h", b"a"),)))) == [(1, 1)]


def test_one_key_with_too_many_records() -> None:
    """Bounded for each input by itself; what left makes room."""
    joining = Joining.of(most_per_key=3, unmatched="drop")
    said = joining.run(*(order(at, 7, at) for at in range(5)))
    failures = [each.failure for each in said if each is not None]
    assert [failure and failure.exception for failure in failures] == [None] * 3 + ["TooMany"] * 2
    assert pairs(joining.run(payment(1, 7, 0))) == [(0, 1), (1, 1), (2, 1)]
    joining.tick(100)
    assert only(joining.run(order(9, 7, 100), watermark=100)).place == RecordPlace.JOINING


@pytest.mark.parametrize("visited_by", ["tick", "record"])
def test_unmatched_drop(visited_by: str) -> None:
    """Those that had a partner leave without a word."""
    joining = Joining.of(unmatched="drop")
    joining.run(order(1, 7, 0), order(2, 8, 0), payment(1, 7, 0))
    _visit(joining, visited_by, watermark=10)
    assert joining.kept == 3 + (visited_by == "record"), "the watermark is not beyond the reach of the join"
    _visit(joining, visited_by, watermark=11)
    assert joining.places["unmatched"] == 1
    assert joining.places["joining"] == 2 * (visited_by == "record")
    assert joining.kept == 2 * (visited_by == "record")


@pytest.mark.parametrize("visited_by", ["tick", "record"])
def test_unmatched_error(visited_by: str) -> None:
    """The very record that waited leaves, and is not counted as read again."""
    joining = Joining.of()
    joining.run(Row("orders", 1, {"id": 7, "at": 0}, (("h", b"v"),), 5, b"key", 3), order(2, 8, 1), payment(1, 8, 0))
    verdict = _visit(joining, visited_by, watermark=11)
    [(topic, offset, own)] = joining.left
    assert (topic, offset) == ("orders", 1)
    assert own.failure is not None
    assert own.failure.exception == "Unmatched"
    assert "payment" in own.failure.message
    assert (verdict.moves or {})[RecordPlace.JOINING] == -1
    [row] = with_left(JUDGED.empty_table(), [verdict]).to_pylist()
    told = RecordVerdict.decode(row.pop(VERDICT))
    assert told.is_again
    assert told.failure == own.failure
    headers = [{"key": "h", "value": b"v"}]
    assert (row["partition"], row["key"], row["headers"], json.loads(row["value"])) == (
        3,
        b"key",
        headers,
        {"id": 7, "at": 0},
    )
    assert row["timestamp"].timestamp() == 0.005


def test_unmatched_deliver() -> None:
    """By a tick alone: the documents need a record that they are children of. Until then they match nothing."""
    joining = Joining.of(unmatched={"order": "deliver", "payment": "drop"}, late="take")
    joining.run(order(1, 7, 0), order(2, 8, 0), payment(1, 8, 5), payment(2, 9, 0))
    joining.run(payment(3, 6, 20), watermark=16)
    assert joining.kept == 2, "the order without partner, and the payment that has just come"
    assert pairs(joining.run(payment(4, 7, 1), watermark=16)) == []
    verdict = joining.tick(16)
    assert pairs([verdict]) == [(1, None)]
    assert verdict.moves == {RecordPlace.JOINING: -1, RecordPlace.AGGREGATED: 1}
    assert verdict.by == "both"
    assert joining.tick(16).given == [], "a second tick finds nothing due"
    again = joining.tick(99, verdict.header or ("", b""), value=verdict.value or b"")
    assert again.given == verdict.given, "they failed behind the join, and come back with the tick"
    assert joining.kept == 2


def test_one_leaves_and_another_of_its_key_is_at_the_edge() -> None:
    """The last moment at which it may find a partner is part of its time."""
    joining = Joining.of()
    joining.run(order(1, 7, 0), order(2, 7, 1))
    joining.tick(11)
    assert [offset for _, offset, _ in joining.left] == [1]
    assert pairs(joining.run(payment(1, 7, 11), watermark=11)) == [(2, 1)]


def test_so_many_without_partner_that_one_tick_does_not_take_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("towpath.flow.stateful.column_join.MOST_PER_TICK", 2)
    joining = Joining.of(unmatched="deliver")
    joining.run(*(order(at, at % 2, 0) for at in range(5)))
    found = [pairs([joining.tick(100)]) for _ in range(4)]
    assert [len(each) for each in found] == [2, 2, 1, 0]
    assert sorted(one for each in found for one, _ in each) == [0, 1, 2, 3, 4]
    assert joining.kept == 0


def test_a_joined_record_that_failed_comes_back_with_its_partners() -> None:
    """And is not joined anew: with partners that have come since, pairs would be delivered twice."""
    joining = Joining.of(max_bytes=60)
    joining.run(order(1, 7, 0), order(2, 7, 0))
    first = only(joining.run(payment(1, 7, 0)._replace(headers=((JOINED, b"[1]"),))))
    joining.run(order(3, 7, 0))
    assert first.header is not None
    assert len(first.value or b"") > 60
    returned = back(payment(1, 7, 0)._replace(value=first.value), (JOINED, b"[1]"), first.header)
    again = only(joining.run(returned))
    assert again.given == first.given
    assert again.was_read, "no limit holds for it"
    assert joining.kept == 4


def test_a_header_of_somebody_else_is_not_believed() -> None:
    joining = Joining.of()
    strange = (JOINED, json.dumps([["orders", 0, 5]]).encode())
    assert only(joining.run(back(order(1, 7, 0)._replace(headers=(strange,))))).place == RecordPlace.JOINING
    assert (
        only(joining.run(order(2, 7, 0)._replace(headers=((JOINED, b'[["orders", 0, 2]]'),)))).place
        == RecordPlace.JOINING
    )


def test_when_a_shard_is_due() -> None:
    """As a watermark, in steps of a twentieth of what the join reaches."""
    joining = Joining.of(within_s=1)
    assert joining.keeper.due({}) == []
    joining.run(order(1, 7, 101), order(2, 8, 500))
    assert joining.keeper.due(joining.states[0]) == [1150]
    joining.tick(1102)
    assert joining.keeper.due(joining.states[0]) == [1550]


def _visit(joining: Joining, by: str, watermark: int) -> RecordVerdict:
    if by == "tick":
        return joining.tick(watermark)
    return only(joining.run(order(100 + watermark, "other", watermark), watermark=watermark))
