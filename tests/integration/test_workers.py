"""What a worker makes of a handler's outcome. The same on the synchronous and on the asynchronous inbox."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.support.tables import message_row, rows, states

from towpath.errors import BadName
from towpath.queue import Answer, GiveBack, Message, MessageState, is_aborted
from towpath.queue.consumers import Worker
from towpath.queue.inbox import LONGEST_REASON
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until


@pytest.fixture(params=["synchronous", "asynchronous"])
def worker(request: pytest.FixtureRequest, runtime: Runtime) -> Iterator[Worker]:
    made: Worker = getattr(runtime.queue, request.param)("work")
    yield made
    made.stop()


def ask(runtime: Runtime, function: str = "DO", payload: Any = None) -> Answer:
    return runtime.queue.outbox("me").request("work", function, payload, timeout_s=30)


def test_the_returned_value_is_the_answer(runtime: Runtime, worker: Worker) -> None:
    worker.on("DO")(lambda message: {"got": message.payload})
    worker.start()
    assert ask(runtime, payload=[1, "ü"]).payload == {"got": [1, "ü"]}


def test_nothing_returned_is_an_answer_of_null(runtime: Runtime, worker: Worker) -> None:
    worker.on("DO")(lambda message: None)
    worker.start()
    answer = ask(runtime)
    assert (answer.state, answer.payload) == (MessageState.OK, None)


def test_handlers_are_found_by_function(runtime: Runtime, worker: Worker) -> None:
    worker.on("A")(lambda message: "a")
    worker.on("B")(lambda message: "b")
    worker.start()
    assert [ask(runtime, function).payload for function in "BAB"] == ["b", "a", "b"]


def test_a_function_that_nobody_handles_is_an_error(runtime: Runtime, worker: Worker) -> None:
    worker.on("A")(lambda message: "a")
    worker.on("B")(lambda message: "b")
    worker.start()
    answer = ask(runtime, "C")
    assert answer.state is MessageState.ERR
    assert list(answer.payload) == ["error"]
    assert [part for part in ("'C'", "A, B") if part not in answer.payload["error"]] == []
    assert message_row(runtime.database, answer.message_id)["reason"] == answer.payload["error"]


def test_an_exception_is_an_error_with_its_reason(runtime: Runtime, worker: Worker) -> None:
    @worker.on("DO")
    def fail(message: Message) -> None:
        raise LookupError(f"no {message.payload}")

    worker.start()
    answer = ask(runtime, payload="milk")
    assert (answer.state, answer.payload) == (MessageState.ERR, {"error": "LookupError: no milk"})
    assert ask(runtime, payload="eggs").payload == {"error": "LookupError: no eggs"}


@pytest.mark.parametrize(
    "text", ["NUL \x00", "surrogate \ud800", "x" * 100_000, ""], ids=["nul", "surrogate", "long", "empty"]
)
@pytest.mark.parametrize("kind", ["send", "notice"])
def test_whatever_an_exception_says_the_message_ends(runtime: Runtime, worker: Worker, text: str, kind: str) -> None:
    @worker.on("DO")
    def fail(message: Message) -> None:
        raise ValueError(text)

    worker.start()
    sent = getattr(runtime.queue.outbox("me"), kind)("work", "DO")
    wait_until(lambda: message_row(runtime.database, sent)["state"] == "ERR", what="the end of the message")
    assert len(message_row(runtime.database, sent)["reason"]) <= LONGEST_REASON + 10


@pytest.mark.parametrize("value", [object(), float("nan"), "a\x00", "\ud800", "x" * (1 << 20)], ids=range(5))
def test_an_answer_that_cannot_be_sent_is_an_error(runtime: Runtime, worker: Worker, value: Any) -> None:
    worker.on("DO")(lambda message: value)
    worker.start()
    answer = ask(runtime)
    assert answer.state is MessageState.ERR
    assert answer.payload["error"]


def test_the_value_returned_for_a_notice_is_thrown_away(runtime: Runtime, worker: Worker) -> None:
    worker.on("DO")(lambda message: object())
    worker.start()
    sent = runtime.queue.outbox("me").notice("work", "DO")
    wait_until(lambda: message_row(runtime.database, sent)["state"] == "OK")
    assert len(rows(runtime.database, "message")) == 1


def test_giving_back_burns_no_attempt(runtime: Runtime, worker: Worker) -> None:
    seen: list[tuple[int, int, int]] = []

    @worker.on("DO")
    def later(message: Message) -> Any:
        seen.append((message.attempts, message.give_backs, message.failures))
        return GiveBack(0.01) if len(seen) < 4 else "done"

    worker.start()
    assert ask(runtime).payload == "done"
    assert seen == [(1, 0, 1), (2, 1, 1), (3, 2, 1), (4, 3, 1)]


@pytest.mark.parametrize("after_s", [-1.0, float("nan"), float("inf")])
def test_giving_back_for_no_time_that_exists_is_an_error(runtime: Runtime, worker: Worker, after_s: float) -> None:
    worker.on("DO")(lambda message: GiveBack(after_s))
    worker.start()
    assert ask(runtime).state is MessageState.ERR


def test_what_a_handler_sends_carries_the_id_of_its_message(runtime: Runtime, worker: Worker) -> None:
    runtime.queue.inbox("next")
    outbox = runtime.queue.outbox("worker")

    @worker.on("DO")
    def pass_on(message: Message) -> list[str]:
        return [outbox.notice("next", "ONE"), outbox.send("next", "TWO"), *outbox.notice_many("next", "MANY", [1, 2])]

    worker.start()
    answer = ask(runtime)
    found = {row["id"]: row["audit_id"] for row in rows(runtime.database, "message")}
    assert [found[one] for one in answer.payload] == [answer.message_id] * 4


def test_the_handlers_own_finish_counts_once(runtime: Runtime, worker: Worker) -> None:
    """A handler may finish its message itself, with other work, in one transaction."""
    runtime.queue.inbox("next")
    outbox = runtime.queue.outbox("worker")

    @worker.on("DO")
    def in_one(message: Message) -> str:
        with runtime.database.transaction() as tx:
            outbox.notice("next", "DO", tx=tx)
            worker.inbox.finish(message, "mine", tx=tx)
        return "thrown away"

    worker.start()
    assert ask(runtime).payload == "mine"
    worker.stop()
    assert sorted(row["function"] for row in rows(runtime.database, "message")) == ["DO", "DO", "REPLY"]


def test_functions_need_names(worker: Worker) -> None:
    for name in ("", "a b"):
        with pytest.raises(BadName):
            worker.on(name)


def test_a_worker_goes_on_where_it_stopped(runtime: Runtime, worker: Worker) -> None:
    got: list[int] = []
    worker.on("DO")(lambda message: got.append(message.payload))
    outbox = runtime.queue.outbox("me")
    for turn in range(3):
        worker.start()
        outbox.notice("work", "DO", turn)
        wait_until(lambda turn=turn: len(got) == turn + 1)  # type: ignore[misc]
        worker.stop()
    outbox.notice("work", "DO", 3)
    assert got == [0, 1, 2]
    assert states(runtime.database) == ["OK", "OK", "OK", "NEW"]


def test_outside_a_handler_nothing_is_aborted() -> None:
    assert not is_aborted()


@pytest.fixture
def handled(runtime: Runtime, worker: Worker) -> Callable[[], list[int]]:
    got: list[int] = []
    worker.on("DO")(lambda message: got.append(message.payload))
    worker.start()
    outbox = runtime.queue.outbox("me")
    for number in range(5):
        outbox.request("work", "DO", number, timeout_s=20)
    worker.stop()
    got.clear()
    return lambda: got


def test_replay_hands_over_the_last_ones_and_changes_nothing(
    runtime: Runtime, worker: Worker, handled: Callable[[], list[int]]
) -> None:
    before = rows(runtime.database, "message"), rows(runtime.database, "event")
    assert worker.replay(3) == 3
    assert handled() == [2, 3, 4]
    assert worker.replay(100) == 5
    assert handled() == [2, 3, 4, 0, 1, 2, 3, 4]
    assert (rows(runtime.database, "message"), rows(runtime.database, "event")) == before


def test_the_error_of_a_replayed_handler_is_the_callers(
    runtime: Runtime, worker: Worker, handled: Callable[[], list[int]]
) -> None:
    @worker.on("DO")
    def fail(message: Message) -> None:
        raise LookupError("not here")

    before = rows(runtime.database, "message")
    with pytest.raises(LookupError):
        worker.replay(1)
    assert rows(runtime.database, "message") == before


def test_a_handler_that_exits_ends_its_message_and_not_its_worker(runtime: Runtime, worker: Worker) -> None:
    def leave(message: Message) -> None:
        raise SystemExit(3)

    worker.on("LEAVE")(leave)
    worker.on("STAY")(lambda message: "here")
    worker.start()
    outbox = runtime.queue.outbox("me")
    answer = outbox.request("work", "LEAVE", timeout_s=20)
    assert (answer.state, answer.payload) == (MessageState.ERR, {"error": "SystemExit: 3"})
    assert outbox.request("work", "STAY", timeout_s=20).payload == "here"


def test_a_failure_is_told_where_payloads_are_kept_tiny(make_runtime: Callable[..., Runtime]) -> None:
    runtime = make_runtime(queue={"max_payload_bytes": 16})
    worker = runtime.queue.synchronous("work")
    worker.on("DO")(lambda message: "longer than sixteen bytes")
    worker.start()
    answer = runtime.queue.outbox("me").request("work", "DO", timeout_s=20)
    worker.stop()
    assert answer.state is MessageState.ERR
    assert "limit is 16" in answer.payload["error"]
