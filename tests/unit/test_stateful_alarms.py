"""Alarms that go wrong: times that cannot be, ticks that were spoiled at the desk, keys that would expire meanwhile."""

from __future__ import annotations

import threading
from typing import Any

import msgspec
import orjson
import pytest
from tests.unit.test_stateful_steps import FRESH, Ringing, Shard

from towpath.flow.failures import ErrorCode
from towpath.flow.graph.stateful_nodes import LAST_MS, Moment, StatefulStep
from towpath.flow.records.reentry import CORRELATION, INPUT_OFFSET, SHARD, STAGE, TICK
from towpath.flow.stateful import field
from towpath.flow.stateful.keeper import WOKEN, Ticks
from towpath.flow.stateful.steps import StepKeeper
from towpath.flow.worker.records import RecordVerdict

BACK = ((INPUT_OFFSET, b"7"), (CORRELATION, b"c"))


@pytest.mark.parametrize("ms", [-1, LAST_MS + 1, 10**20])
def test_a_time_that_cannot_be_fails_its_record_alone(ms: int) -> None:
    """No state holds such a number: writing it would end the batch, and the next, and the next."""
    with pytest.raises(ValueError, match="9999"):
        _moment().wake_at(ms)
    shard = Ringing()
    assert shard.run({"who": "a", "at": ms}, {"who": "b", "at": LAST_MS}) == ["ValueError", []]
    assert [*shard.state] == [b"b"]
    msgspec.msgpack.encode(shard.state)


@pytest.mark.parametrize("seconds", [1e17, -1e17, float("nan"), float("inf"), -float("inf"), 10**400, 3e11])
def test_nor_a_wait(seconds: float) -> None:
    with pytest.raises(ValueError, match=r"wait|9999"):
        _moment().wake_in(seconds)


def _moment() -> Moment:
    return Moment(b"k", 1_000, "orders", 0, 0, 0)


class Giving(Shard):
    """Its function and its alarm give what they are told to."""

    def __init__(self, given: Any) -> None:
        def function(document: dict[str, Any], state: dict[str, Any], moment: Moment) -> Any:
            state["n"] = state.get("n", 0) + 1
            moment.wake_at(5)
            return given if "bad" in document else {"n": state["n"]}

        step = StatefulStep("giving", function, field("who"), None, lambda state, moment: given)
        super().__init__()
        self.keeper = StepKeeper(self.keeper.source, step, "orders", "f.reentry", 1000)


@pytest.mark.parametrize("given", [{"x": lambda: 1}, [{}, {"x": threading.Lock()}], {"x": (one for one in "ab")}])
def test_what_no_other_process_can_have_fails_its_record_alone(given: Any) -> None:
    shard = Giving(given)
    who = {"who": "a"}
    assert shard.run(who, {**who, "bad": 1}, who) in (
        [[{"n": 1}], "PicklingError", [{"n": 2}]],
        [[{"n": 1}], "AttributeError", [{"n": 2}]],
        [[{"n": 1}], "TypeError", [{"n": 2}]],
    )
    [woken] = shard.keeper.wake([FRESH], shard.state, 10)
    assert woken.failure is not None
    assert woken.failure.code is ErrorCode.TRANSFORM_FAILED
    woken.encode()


def test_what_json_has_and_orjson_has_not_may_be_given() -> None:
    large = {"cents": 123456789012345678901234567890}
    assert Giving(large).run({"who": "a", "bad": 1}) == [[large]]


def test_a_key_whose_wake_up_has_failed_waits_for_its_replay_however_long() -> None:
    """Its alarm was later than it would have expired: by the time of the replay there would be nothing left."""
    shard = Ringing(expire_s=10)
    shard.run({"who": "a", "at": 50_000, "set": {"fails": 1, "cents": 7}}, now_ms=0)
    [failed] = shard.tick(50_000)
    assert failed.failure is not None
    assert shard.due == []
    shard.run({"who": "b"}, now_ms=900_000)
    kept = orjson.loads(shard.state[b"a"][1])
    assert kept["cents"] == 7
    shard.run({"who": "a", "set": {"fails": 0}}, now_ms=950_000)
    [again] = shard.tick(960_000, FRESH._replace(value=failed.value, headers=((WOKEN, b"a"), *BACK)))
    assert again.given == [{"key": "a", "due": 50_000, "now": 960_000}]
    shard.run({"who": "b"}, now_ms=970_000)
    assert [*shard.state] == [], "and then it expires"


@pytest.mark.parametrize(
    ("value", "headers"),
    [
        (b'{"key":"k","given":[{"cents":7},]}', BACK),
        (b'{"key":"k","given":[7]}', BACK[:1]),
        (b'{"key":"k","given":{"cents":7}}', BACK[1:]),
        (b'{"key":"k"}', BACK),
        (b"{}", BACK),
        (b"oops", BACK),
        (b"[1]", ()),
        (None, BACK),
        (None, ((WOKEN, b"other"), *BACK)),
        (b"oops", ((WOKEN, b"other"), *BACK)),
        (b'{"given": 1}', ((WOKEN, b"other"), *BACK)),
    ],
)
def test_a_tick_that_somebody_has_spoiled_rings_no_other_key(value: bytes | None, headers: Any) -> None:
    shard = Ringing()
    shard.run({"who": "other", "at": 5, "set": {"x": 1}})
    before = dict(shard.state)
    [said] = shard.tick(10, FRESH._replace(value=value, headers=headers))
    assert said.failure is not None
    assert (said.failure.code, said.failure.exception, said.by) == (ErrorCode.NOT_VALID, "BadTick", "ringing")
    assert shard.state == before
    assert shard.tick(10)[0].given == [{"key": "other", "due": 5, "now": 10}]


def test_what_was_given_may_be_longer_than_a_record() -> None:
    shard = Ringing()
    shard.run({"who": "a", "at": 5})
    [first] = shard.tick(10)
    assert first.was_read
    [again] = shard.tick(10, FRESH._replace(value=first.value, headers=BACK))
    assert again == RecordVerdict(given=first.given, by="ringing", was_read=True)


@pytest.mark.parametrize("shard", ["9" * 5_000, "256", "-1", "", "x", "٣", "1.0"])
def test_a_tick_of_a_shard_that_is_none_is_none(shard: str) -> None:
    ticks = Ticks("orders", "f.reentry", 0, 256)
    said = {STAGE: "orders", TICK: "0"}
    assert ticks._shard({**said, SHARD: shard}) is None
    assert ticks._shard({**said, SHARD: "255"}) == 255
