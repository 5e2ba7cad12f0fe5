"""The core of a stateful step without Spark: records of a shard in, verdicts and state out."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from towpath.flow.nodes import Source
from towpath.flow.stateful import field, header, key
from towpath.flow.stateful.keeper import ShardState
from towpath.flow.stateful.packets import JUDGED
from towpath.flow.stateful.parts import Parts
from towpath.flow.stateful.record_part import RecordPart, part_of
from towpath.flow.stateful.stateful_step import StatefulStep
from towpath.flow.stateful.step_keeper import StepKeeper
from towpath.flow.stateful.verdict import Verdict
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


def _shown(verdict: Verdict | None) -> Any:
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
    assert Parts(batch).of(part) == [part_of(one, part) for one in records]
    assert Parts(batch.slice(2, 3)).of(part) == [part_of(one, part) for one in records[2:5]]
