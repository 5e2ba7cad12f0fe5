"""A join by position without Spark: what comes back, what has waited long enough, and what each of them moves."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from towpath.errors import BadFlow
from towpath.flow.delivery.places import RecordPlace
from towpath.flow.graph.nodes import Source
from towpath.flow.graph.stateful_nodes import Join
from towpath.flow.records.reentry import INPUT_OFFSET, INPUT_PARTITION, INPUT_TOPIC, INPUT_TOPIC_ID, STAGE
from towpath.flow.stateful import field
from towpath.flow.stateful.join import JOINED, JoinKeeper
from towpath.flow.stateful.keeper import ShardState, Tick
from towpath.flow.stateful.operators import JUDGED
from towpath.flow.worker.records import RecordVerdict
from towpath.log.record import Headers

AT = datetime(2026, 1, 1, tzinfo=UTC)
INPUTS = (("one", "a"), ("two", "b"), ("three", "c"))
TICK = Tick("f.reentry", 0, 7, 0, 3, b"{}", ())


class Shard:
    """One shard of a join over several batches."""

    def __init__(self, **joining: Any) -> None:
        join = Join(INPUTS, field("id"), **joining)
        source = Source("joined", tuple(topic for _, topic in INPUTS), join=join)
        self.keeper = JoinKeeper(source, join, "a+b+c", "f.reentry", 1000)
        self.state: ShardState = {}
        self.offset = -1

    def run(self, topic: str, document: Any, now_ms: int = 0, headers: Headers = ()) -> RecordVerdict | None:
        self.offset += 1
        value = document if isinstance(document, bytes) else json.dumps(document).encode()
        said = [{"key": name, "value": text} for name, text in headers]
        row = (topic, 0, self.offset, AT, None, value, said, None)
        columns = [pa.array([cell], type) for cell, type in zip(row, JUDGED.types, strict=True)]
        records = pa.Table.from_arrays(columns, schema=JUDGED)
        [verdict] = self.keeper.decide(records, self.keeper.keys(records.to_batches()[0]), self.state, now_ms)
        return verdict

    def back(self, topic: str, offset: int, document: Any, *more: tuple[str, bytes]) -> RecordVerdict | None:
        """A record that comes back to the stage, which it was read by at that offset."""
        said = {STAGE: "a+b+c", INPUT_TOPIC: topic, INPUT_TOPIC_ID: "id", INPUT_PARTITION: "0", INPUT_OFFSET: offset}
        headers = tuple((name, str(text).encode()) for name, text in said.items())
        return self.run("f.reentry", document, headers=(*headers, *more))


def document(verdict: RecordVerdict | None) -> Any:
    assert verdict is not None
    return json.loads(verdict.value or b"null")


def test_what_came_without_its_key_and_comes_back_with_it_is_new() -> None:
    shard = Shard()
    shard.run("a", {"id": 1})
    shard.run("b", {"id": 1})
    without = shard.run("c", {"n": 3})
    assert without is not None
    assert without.failure is not None
    assert without.failure.exception == "NoKey"
    again = shard.back("c", 2, {"n": 3})
    assert again is not None
    assert again.failure is not None, "still without"
    assert document(shard.back("c", 2, {"id": 1, "n": 3})) == {
        "one": {"id": 1},
        "two": {"id": 1},
        "three": {"id": 1, "n": 3},
    }
    assert shard.state == {}


def test_what_was_joined_before_goes_on_and_what_waits_is_not_doubled() -> None:
    shard = Shard()
    joined = (JOINED, b'[["a", 0, 5], ["b", 0, 1], ["c", 0, 1]]')
    for more in ([joined], [(JOINED, b"of the sender"), joined]):
        assert shard.back("a", 5, {"one": {}}, *more) == RecordVerdict(was_read=True), (
            "also if it is longer than a record"
        )
    assert shard.back("a", 5, {"id": 1}) == RecordVerdict(RecordPlace.JOINING)
    assert shard.back("a", 5, {"id": 1}) == RecordVerdict(RecordPlace.DUPLICATE)
    assert shard.back("other", 5, {"id": 1}) is None, "of another source"
    assert shard.run("d", {"id": 1}) is None


@pytest.mark.parametrize("text", [b"sender's own", b"[]", b"5", b'[["b", 0, 5]]', b'[["a", 0, 4]]', b"[null]", b""])
def test_a_header_of_the_sender_does_not_take_a_replay_past_the_join(text: bytes) -> None:
    assert Shard().back("a", 5, {"id": 1}, (JOINED, text)) == RecordVerdict(RecordPlace.JOINING)


def test_what_is_joined_may_be_longer_than_a_record() -> None:
    shard = Shard()
    long = "x" * 900
    shard.run("a", {"id": 1, "long": long})
    shard.run("b", {"id": 1, "long": long})
    verdict = shard.run("c", {"id": 1})
    assert verdict is not None
    assert len(verdict.value or b"") > shard.keeper.max_bytes
    assert verdict.was_read


def test_what_has_waited_long_enough_is_delivered_with_null() -> None:
    shard = Shard(wait_s=1, unmatched="deliver")
    shard.run("a", {"id": 1}, 0)
    shard.run("c", {"id": 1}, 500)
    shard.run("b", {"id": 2}, 600)
    assert shard.keeper.due(shard.state) == [1000, 1600]
    assert shard.keeper.wake([TICK], shard.state, 999)[0].given == []
    first, second, none = shard.keeper.wake([TICK] * 3, shard.state, 1600)
    assert document(first) == {"one": {"id": 1}, "two": None, "three": {"id": 1}}
    assert first.moves == {RecordPlace.JOINING: -2, RecordPlace.AGGREGATED: 2}
    assert first.header == (JOINED, b'[["a",0,0],null,["c",0,1]]')
    assert document(second) == {"one": None, "two": {"id": 2}, "three": None}
    assert none.given == []
    assert {verdict.by for verdict in (first, second, none)} == {"joined"}
    assert shard.state == {}
    back = TICK._replace(value=first.value, headers=((JOINED, b"[]"),))
    assert shard.keeper.wake([back], shard.state, 0) == [RecordVerdict(by="joined", was_read=True)], (
        "it goes on as it is"
    )


def test_or_goes_to_the_error_topic() -> None:
    shard = Shard(wait_s=1.5, unmatched="error")
    shard.run("a", {"id": 1}, 0)
    [failed] = shard.keeper.wake([TICK], shard.state, 1500)
    assert failed.failure is not None
    assert (failed.failure.code, failed.failure.exception) == (8, "NoPartner")
    assert "two, three" in failed.failure.message
    assert document(failed) == {"one": {"id": 1}, "two": None, "three": None}
    assert failed.moves == {RecordPlace.JOINING: -1, RecordPlace.UNMATCHED: 1}


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"wait_s": 1}, "both"),
        ({"unmatched": "error"}, "both"),
        ({"wait_s": 0, "unmatched": "error"}, "0"),
        ({"wait_s": 1, "unmatched": "drop"}, "unmatched"),
    ],
)
def test_what_cannot_be_is_refused(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(BadFlow, match=why):
        Join(INPUTS, **wrong)
