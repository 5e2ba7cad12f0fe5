"""A flow that had timers and has them no more, and the other way round: what was due is due no more, and told so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from tests.support.column_join import REENTRY, Row, batch_of

from towpath.flow.graph.nodes import Source
from towpath.flow.graph.stateful_nodes import Join, StatefulStep
from towpath.flow.stateful import Dedupe, field, header
from towpath.flow.stateful.dedupe import TOUCHED, DedupeKeeper, DedupeRule
from towpath.flow.stateful.join import JOINED, JoinKeeper
from towpath.flow.stateful.keeper import KeyState, ShardState, StateKeeper, Ticks, tick_record
from towpath.flow.stateful.operators import KEY, NOW, PACKET, ShardProcessor, read_packet, write_packet
from towpath.flow.stateful.steps import StepKeeper
from towpath.flow.worker.records import VERDICT, RecordVerdict

JOIN = Join((("order", "orders"), ("payment", "payments")), field("id"))
STEP = StatefulStep("s", lambda document, state: None, field("id"))
DEDUPE = Dedupe(header("sender"), header("n"), window=2, late="drop")
TICK = Row(REENTRY, 0, b"{}", tick_record("st", 0, 3).headers)  # type: ignore[arg-type]  # none of them is None
RECORD = Row("orders", 0, {"id": 7})


class Spark:
    """As much of Spark as the operator asks for: the state of one shard."""

    def __init__(self, keeper: StateKeeper, state: ShardState) -> None:
        self._cells: list[Any] | None = [msgspec.msgpack.encode(state)]
        self._keeper = keeper
        self._processor = ShardProcessor(keeper, Ticks("st", REENTRY, 0, 256))
        self._processor.init(SimpleNamespace(getValueState=lambda name, schema: self))  # type: ignore[arg-type]

    def get(self) -> Any:
        return self._cells

    def update(self, cells: Any) -> None:
        self._cells = [*cells]

    def run(self, *rows: Row, now_ms: int = 10**9) -> list[RecordVerdict | None]:
        batch = batch_of(rows)
        keyed = pa.Table.from_batches([batch]).append_column(KEY, pa.array(self._keeper.keys(batch), pa.binary()))
        packets: Iterator[Any] = iter([{PACKET: write_packet(keyed), NOW: now_ms}])
        [row] = self._processor.handleInputRows((3,), packets, None)  # type: ignore[arg-type]
        told = read_packet(row[PACKET]).column(VERDICT).to_pylist()
        return [None if text is None else RecordVerdict.decode(text) for text in told]

    @property
    def state(self) -> ShardState:
        assert self._cells is not None
        return msgspec.msgpack.decode(self._cells[0], type=dict[bytes, Any])


def step_keeper(**more: Any) -> StepKeeper:
    step = replace(STEP, **more)
    return StepKeeper(Source("s", ("orders",), stateful=step), step, "st", REENTRY, 1000)


def join_keeper(**more: Any) -> JoinKeeper:
    join = replace(JOIN, **more)
    return JoinKeeper(Source("both", ("orders", "payments"), join=join), join, "st", REENTRY, 1000)


def dedupe_keeper(**more: Any) -> DedupeKeeper:
    return DedupeKeeper({"orders": DedupeRule.of("orders", ("orders",), replace(DEDUPE, **more))})


WAITS = {b"7": [[[["orders", 0, 1, b"{}", 5]], []], []]}
WITHOUT_TIMERS = [
    (step_keeper(), {b"7": KeyState(1, b'{"n":1}', 2).to_value()}),
    (join_keeper(), WAITS),
    (dedupe_keeper(), {TOUCHED: {b"orders\0a": 5}}),
]


@pytest.mark.parametrize(("keeper", "state"), WITHOUT_TIMERS)
def test_a_tick_of_before_makes_the_shard_tell_that_nothing_is_due(keeper: StateKeeper, state: ShardState) -> None:
    """Else its row in the table would stay, and bring ticks, for ever."""
    spark = Spark(keeper, state)
    [said] = spark.run(TICK)
    assert said is not None
    assert (said.due, said.given, said.failure) == ({"0/3": []}, [], None)
    assert said.by is not None
    [said] = spark.run(RECORD)
    assert said is None or said.due is None, "what is not timed does not pay for it"


def test_what_waits_without_an_end_is_left_waiting_by_a_tick() -> None:
    spark = Spark(join_keeper(), WAITS)
    spark.run(TICK)
    assert spark.state == WAITS


@pytest.mark.parametrize("keeper", [step_keeper(), join_keeper()])
def test_a_tick_that_comes_back_still_delivers_what_it_has(keeper: StateKeeper) -> None:
    value = b'{"given": [{"n": 1}], "order": {}, "payment": null}'
    headers = (*TICK.headers, (JOINED, b"[]"), ("towpath.correlation", b"c"))
    [said] = Spark(keeper, {}).run(TICK._replace(value=value, headers=headers))
    assert said is not None
    assert said.was_read
    assert said.given in ([{"n": 1}], None)


def test_without_on_wake_a_key_that_was_to_be_woken_expires() -> None:
    state = {b"a": KeyState(1_000, b'{"n":1}', 2_000).to_value(), b"b": KeyState(1_000, b'{"n":1}', None, 5).to_value()}
    spark = Spark(step_keeper(expire_s=60), state)
    [said] = spark.run(TICK, now_ms=10_000)
    assert said is not None
    assert said.due == {"0/3": [66_000]}
    [said] = spark.run(TICK, now_ms=66_000)
    assert said is not None
    assert said.due == {"0/3": []}
    assert spark.state == {}


def test_a_join_that_gets_an_end_of_waiting_takes_what_was_kept_without_a_time() -> None:
    old = {b"7": [[[["orders", 0, 1, b"{}"]], []], [[["orders", 0, 0, b"{}"], ["payments", 0, 0, None]]]]}
    keeper = join_keeper(wait_s=1, unmatched="error")
    assert keeper.due(old) == [1_000, 1_000]
    said = Spark(keeper, old).run(TICK, TICK._replace(offset=1), TICK._replace(offset=2))
    assert [one and one.failure and one.failure.exception for one in said] == ["NoPartner", "NoPartner", None]


def test_senders_are_not_forgotten_by_times_of_long_ago() -> None:
    """While nobody was forgotten, nobody noted when they sent."""
    sent = Row("orders", 0, b"{}", (("sender", b"a"), ("n", b"1")))
    spark = Spark(dedupe_keeper(forget_after_s=10), {})
    spark.run(sent, now_ms=0)
    between = Spark(dedupe_keeper(), spark.state)
    between.run(sent._replace(offset=1, headers=(("sender", b"a"), ("n", b"2"))), now_ms=100_000)
    after = Spark(dedupe_keeper(forget_after_s=10), between.state)
    [said] = after.run(sent._replace(offset=2, headers=(("sender", b"a"), ("n", b"2"))), now_ms=101_000)
    assert said is not None
    assert said.place == "duplicate"
