"""The core of a stateful step without Spark: records of a shard in, verdicts and state out."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from towpath.flow.graph.nodes import Source
from towpath.flow.graph.stateful_nodes import Moment, RecordPart, StatefulStep, part_of
from towpath.flow.stateful import field, header, key
from towpath.flow.stateful.keeper import WOKEN, RecordPartColumns, ShardState, Tick
from towpath.flow.stateful.operators import JUDGED
from towpath.flow.stateful.steps import StepKeeper
from towpath.flow.worker.breadcrumb import forget_trail, last_seen, own_trail, trail_of
from towpath.flow.worker.records import RecordVerdict
from towpath.log import Record

AT = datetime(2026, 1, 1, tzinfo=UTC)


def table(*documents: Any, topic: str = "orders") -> pa.Table:
    rows: list[tuple[Any, ...]] = [
        (topic, 0, offset, AT, b"k", value if isinstance(value, bytes) else json.dumps(value).encode(), [], None)
        for offset, value in enumerate(documents)
    ]
    columns = [pa.array(column, type) for column, type in zip(zip(*rows, strict=True), JUDGED.types, strict=True)]
    return pa.Table.from_arrays(columns, schema=JUDGED)


def counting(document: dict[str, Any], state: dict[str, Any]) -> Any:
    state["n"] = state.get("n", 0) + 1
    match document.get("do"):
        case "raise":
            raise ValueError("no")
        case "forget":
            state.clear()
        case "odd":
            return 7
        case "unwritable":
            state["set"] = {1, 2}
    return {"n": state.get("n")}


class Shard:
    """One shard over several batches."""

    def __init__(self, expire_s: float | None = None) -> None:
        step = StatefulStep("counting", counting, field("who"), expire_s)
        self.keeper = StepKeeper(Source("counting", ("orders",), stateful=step), step, "orders", "f.reentry", 1000)
        self.state: ShardState = {}

    def run(self, *documents: Any, now_ms: int = 0, topic: str = "orders") -> list[Any]:
        records = table(*documents, topic=topic)
        [batch] = records.to_batches()
        said = self.keeper.decide(records, self.keeper.keys(batch), self.state, now_ms)
        return [_shown(verdict) for verdict in said]


def _shown(verdict: RecordVerdict | None) -> Any:
    if verdict is None:
        return None
    return verdict.failure.exception if verdict.failure is not None else verdict.given


def test_only_what_succeeds_is_remembered() -> None:
    shard = Shard()
    who = {"who": "a"}
    assert shard.run(who, {**who, "do": "raise"}, {**who, "do": "odd"}, {**who, "do": "unwritable"}, who) == [
        [{"n": 1}],
        "ValueError",
        "TypeError",
        "TypeError",
        [{"n": 2}],
    ]


def test_an_empty_state_is_none() -> None:
    shard = Shard()
    shard.run({"who": "a"}, {"who": "b"}, {"who": "a", "do": "forget"})
    assert list(shard.state) == [b"b"]


def test_what_has_expired_begins_anew_and_takes_no_room() -> None:
    shard = Shard(expire_s=10)
    shard.run({"who": "a"}, {"who": "b"}, now_ms=0)
    assert shard.run({"who": "a"}, now_ms=9_999) == [[{"n": 2}]]
    assert shard.run({"who": "c"}, now_ms=10_000) == [[{"n": 1}]]
    assert sorted(shard.state) == [b"a", b"c"]


def ringing(document: dict[str, Any], state: dict[str, Any], moment: Moment) -> None:
    state.update(document.get("set", {}))
    if "at" in document:
        moment.wake_at(document["at"])
    if "sleep" in document:
        moment.sleep()


def rung(state: dict[str, Any], moment: Moment) -> Any:
    if state.get("fails"):
        raise ValueError("no")
    if "again" in state:
        moment.wake_at(state.pop("again"))
    state.pop("gone", None)
    return {"key": moment.key.decode(), "due": moment.due_ms, "now": moment.now_ms}


class Ringing(Shard):
    """Keys with alarms."""

    def __init__(self, expire_s: float | None = None) -> None:
        step = StatefulStep("ringing", ringing, field("who"), expire_s, rung)
        self.keeper = StepKeeper(Source("ringing", ("orders",), stateful=step), step, "orders", "f.reentry", 1000)
        self.state = {}

    def tick(self, now_ms: int, *ticks: Tick) -> list[RecordVerdict]:
        return self.keeper.wake(ticks or [FRESH], self.state, now_ms)

    @property
    def due(self) -> list[int]:
        return self.keeper.due(self.state)


FRESH = Tick("f.reentry", 0, 7, 0, 3, b"{}", ())


def test_keys_are_served_in_the_order_of_due_time_and_key() -> None:
    shard = Ringing()
    shard.run({"who": "b", "at": 5}, {"who": "a", "at": 5}, {"who": "c", "at": 4}, {"who": "d", "at": 9})
    assert shard.due == [4, 5, 5, 9]
    assert shard.tick(3)[0].given == []
    given = [verdict.given for verdict in shard.tick(6, *[FRESH] * 5)]
    assert [one and one[0]["key"] for one in given] == ["c", "a", "b", [], []]
    assert shard.due == [9]
    assert sorted(shard.state) == [b"d"], "an empty state without an alarm takes no room"


def test_an_alarm_is_moved_set_off_and_set_again() -> None:
    shard = Ringing()
    shard.run({"who": "a", "at": 5}, {"who": "a", "at": 8}, {"who": "b", "at": 5}, {"who": "b", "sleep": True})
    assert shard.due == [8]
    shard.run({"who": "a", "set": {"again": 20}})
    assert shard.due == [8], "a record that says nothing leaves it"
    assert [one.given for one in shard.tick(10, FRESH, FRESH)] == [[{"key": "a", "due": 8, "now": 10}], []]
    assert shard.due == [20]


def test_what_raises_is_parked_until_its_replay() -> None:
    shard = Ringing()
    shard.run({"who": "a", "at": 1, "set": {"fails": 1, "kept": 1}}, {"who": "b", "at": 2})
    failed, good, none = shard.tick(5, FRESH, FRESH, FRESH)
    assert failed.failure is not None
    assert (failed.failure.exception, failed.header, json.loads(failed.value or b"")) == (
        "ValueError",
        (WOKEN, b"a"),
        {"key": "a", "due_ms": 1},
    )
    assert good.given == [{"key": "b", "due": 2, "now": 5}]
    assert none.given == []
    assert shard.due == [], "nothing rings by itself"
    back = FRESH._replace(value=failed.value, headers=((WOKEN, b"a"),))
    [again] = shard.tick(6, back)
    assert again.failure is not None
    assert again.header is None, "it has it already"
    shard.run({"who": "a", "set": {"fails": 0}})
    assert shard.tick(7, back)[0].given == [{"key": "a", "due": 1, "now": 7}]
    assert shard.tick(8, back)[0].given == [], "once"


def test_what_was_given_and_has_failed_behind_the_step_is_given_again() -> None:
    shard = Ringing()
    shard.run({"who": "a", "at": 1})
    [first] = shard.tick(5)
    assert first.given
    assert shard.tick(6, FRESH._replace(value=first.value))[0].given == first.given


def test_what_is_to_be_woken_does_not_expire_before() -> None:
    shard = Ringing(expire_s=10)
    shard.run({"who": "a", "at": 50_000, "set": {"x": 1}}, {"who": "b", "set": {"x": 1}}, now_ms=0)
    assert shard.due == [10_000, 50_000]
    assert shard.tick(20_000)[0].given == []
    assert sorted(shard.state) == [b"a"]
    assert len(shard.tick(50_000)[0].given or ()) == 1
    assert shard.due == [60_000]


def test_a_record_without_the_key_fails_and_a_bad_one_is_left_to_the_reading() -> None:
    assert Shard().run({"do": "x"}, b"{", b"7") == ["KeyError", None, None]


def test_records_of_other_topics_pass() -> None:
    shard = Shard()
    assert shard.run({"who": "a"}, topic="others") == [None]
    assert shard.state == {}


@pytest.mark.parametrize("part", [header("a"), header("none"), key(), field("x"), field("$.x.y")])
def test_a_part_is_the_same_from_columns_and_from_one_record(part: RecordPart) -> None:
    """What workers go by and what the audit goes by."""
    values = [b'{"x": "t"}', b'{"x": 12}', b'{"x": {"y": true}}', b'{"x": 1.5}', b"[1]", b"", None, b'{"x": null}']
    headers = [(), (("a", b"1"),), (("a", b"1"), ("b", b"2"), ("a", b"3")), (("a", None),), (), (("b", b""),), (), ()]
    records = [
        Record("t", 0, at, 0, None if at % 2 else b"k%d" % at, value, said)
        for at, (value, said) in enumerate(zip(values, headers, strict=True))
    ]
    rows = [
        ("t", 0, one.offset, AT, one.key, one.value, [{"key": k, "value": v} for k, v in one.headers], None)
        for one in records
    ]
    columns = [pa.array(column, type) for column, type in zip(zip(*rows, strict=True), JUDGED.types, strict=True)]
    batch = pa.RecordBatch.from_arrays(columns, schema=JUDGED)
    assert RecordPartColumns(batch).of(part) == [part_of(one, part) for one in records]
    assert RecordPartColumns(batch.slice(2, 3)).of(part) == [part_of(one, part) for one in records[2:5]]


def test_a_worker_leaves_a_trail_also_when_its_file_was_taken_away(tmp_path: Path) -> None:
    """A worker of Spark's outlives the query that it began with."""
    shard, trail = Shard(), trail_of(tmp_path)
    shard.keeper = replace(shard.keeper, trail=str(trail))
    shard.run({"who": "a"}, {"who": "b"})
    assert last_seen(tmp_path) == "", "it has come to its end"
    forget_trail(tmp_path)
    own_trail(str(trail)).at("orders", 0, 7)
    assert last_seen(tmp_path) == "orders/0 at offset 7"
