"""The queue against a model of it: random operations, and after each the whole table is what the model says."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from tests.support.quiet import Quiet
from tests.support.tables import by_hand, rows

from towpath.db.processes import Process
from towpath.errors import ClaimLost, IllegalMove
from towpath.queue import Inbox, Message, MessageState, Queue
from towpath.settings import ProcessSettings
from towpath.testing.clock import SettableClock

INBOXES = {"again": ("again", 2), "once": ("again", 1), "err": ("err", 5), "dead": ("dead", 5)}
LEASE_S = 1e7
SET_FROM = {"NEW": ("ACK", "OK", "ERR", "DEAD"), "OK": ("ACK",), "ERR": ("ACK",), "DEAD": ("NEW", "ACK")}  # by hand
EXAMPLES = {"sqlite": (150, 40), "postgres": (12, 40)}  # examples and steps of each


@dataclass(frozen=True)
class Expected:
    """A message as the model has it. Times are in shifted seconds, by the hundred: beside them real ones are none."""

    id: str
    inbox: str
    payload: Any
    state: str = "NEW"
    owner: str | None = None
    owner_tick: int | None = None
    attempts: int = 0
    give_backs: int = 0
    due: float | None = None
    ttl_s: float | None = None
    expires: float | None = None

    def is_claimable(self, now: float) -> bool:
        return (
            self.state == "NEW"
            and (self.due is None or self.due <= now)
            and (self.expires is None or self.expires > now)
        )


@dataclass
class Worker:
    """One process of the test, with its own queue object on the shared database."""

    process: Process
    inboxes: dict[str, Inbox]
    is_alive: bool = True


class QueueMachine(RuleBasedStateMachine):
    quiet: Quiet  # set by the test

    claims = Bundle("claims")

    def __init__(self) -> None:
        super().__init__()
        for table in ("message", "event", "inbox", "process"):
            by_hand(self.quiet.database, f"delete from {table} ")
        self.clock = SettableClock()
        self.model: list[Expected] = []
        self.now = 0.0
        self.keeper = self.start()
        for _ in range(2):
            self.clock.advance(LEASE_S * 0.6)
            self.keeper.process.renew()
        self.workers = [self.start(), self.start()]
        self.operator = self.queue_of(self.keeper.process).operator("ada")
        self.outbox = self.quiet.queue.outbox("me")

    def queue_of(self, process: Process) -> Queue:
        runtime = self.quiet.runtime
        return Queue(runtime.database, runtime.settings.queue, runtime.events, runtime.event_log, lambda: process)

    def start(self) -> Worker:
        process = Process(self.quiet.database, ProcessSettings(heartbeat_s=LEASE_S / 5, lease_s=LEASE_S), self.clock)
        process.register()
        queue = self.queue_of(process)
        return Worker(process, {name: queue.inbox(name, *policy) for name, policy in INBOXES.items()})

    # What the model knows

    def change(self, message_id: str, **changes: Any) -> None:
        self.model = [replace(one, **changes) if one.id == message_id else one for one in self.model]

    def of(self, message_id: str) -> Expected:
        return next(one for one in self.model if one.id == message_id)

    def holds(self, message: Message) -> bool:
        one = self.of(message.id)
        return (one.state, one.owner, one.owner_tick) == ("ACK", message.owner, message.owner_tick)

    # Rules

    @rule(
        inbox=st.sampled_from(sorted(INBOXES)),
        delay_s=st.sampled_from([None, 1000, 3000]),
        ttl_s=st.sampled_from([None, 2000, 5000]),
    )
    def send(self, inbox: str, delay_s: float | None, ttl_s: float | None) -> None:
        number = len(self.model)
        sent = self.outbox.notice(inbox, "DO", number, delay_s=delay_s, ttl_s=ttl_s)
        due = None if delay_s is None else self.now + delay_s
        expires = None if ttl_s is None else self.now + (delay_s or 0) + ttl_s
        self.model.append(Expected(sent, inbox, number, due=due, ttl_s=ttl_s, expires=expires))

    @rule(inbox=st.sampled_from(sorted(INBOXES)), count=st.integers(1, 3))
    def send_many(self, inbox: str, count: int) -> None:
        numbers = range(len(self.model), len(self.model) + count)
        for number, sent in zip(numbers, self.outbox.notice_many(inbox, "DO", numbers), strict=True):
            self.model.append(Expected(sent, inbox, number))

    @rule(target=claims, who=st.integers(0, 1), inbox=st.sampled_from(sorted(INBOXES)), limit=st.integers(1, 4))
    def claim(self, who: int, inbox: str, limit: int) -> Any:
        worker = self.workers[who]
        ready = [one for one in self.model if one.inbox == inbox and one.is_claimable(self.now)]
        # Delayed ones compete by their due time for a place in the claim, and it is handed out by order of sending.
        plain = [one for one in ready if one.due is None][:limit]
        due = sorted((one for one in ready if one.due is not None), key=lambda one: one.due or 0)
        claimed = worker.inboxes[inbox].claim(limit)
        got = [message.id for message in claimed]
        if len(due) <= limit:
            order = [one.id for one in self.model]
            best = sorted((one.id for one in plain + due), key=order.index)[:limit]
            # One alone may be taken from those that were never delayed, for a few milliseconds after the last look.
            assert got == best or (limit == 1 and got == [one.id for one in plain])
        assert len(got) == min(limit, len(ready))
        assert set(got) <= {one.id for one in ready}
        for message in claimed:
            self.change(
                message.id,
                state="ACK",
                owner=worker.process.id,
                owner_tick=message.owner_tick,
                attempts=self.of(message.id).attempts + 1,
                due=None,
                expires=None,
            )
        return multiple(*((who, worker, message) for message in claimed))

    @rule(held=claims)
    def finish(self, held: tuple[int, Worker, Message]) -> None:
        _, worker, message = held
        self.end(message, lambda: worker.inboxes[message.inbox].finish(message), state="OK")

    @rule(held=claims)
    def fail(self, held: tuple[int, Worker, Message]) -> None:
        _, worker, message = held
        self.end(message, lambda: worker.inboxes[message.inbox].fail(message, "broke"), state="ERR")

    @rule(held=consumes(claims), delay_s=st.sampled_from([0.0, 1000.0]))
    def release(self, held: tuple[int, Worker, Message], delay_s: float) -> None:
        _, worker, message = held
        self.end(
            message,
            lambda: worker.inboxes[message.inbox].release(message, delay_s),
            state="NEW",
            owner=None,
            owner_tick=None,
            give_backs=self.of(message.id).give_backs + 1,
            due=self.now + delay_s if delay_s else None,
        )

    def end(self, message: Message, act: Callable[[], None], **changes: Any) -> None:
        if self.holds(message):
            act()
            self.change(message.id, **changes)
        else:
            with pytest.raises(ClaimLost):
                act()

    @rule(
        which=st.integers(0, 50),
        state=st.sampled_from([MessageState.NEW, MessageState.OK, MessageState.ERR, MessageState.DEAD]),
    )
    def set_state(self, which: int, state: MessageState) -> None:
        if not self.model:
            return
        one = self.model[which % len(self.model)]
        if one.state not in SET_FROM[state]:
            with pytest.raises(IllegalMove):
                self.operator.set_state(one.id, state, "why")
            return
        self.operator.set_state(one.id, state, "why")
        if state is MessageState.NEW:
            expires = None if one.ttl_s is None else self.now + one.ttl_s
            self.change(
                one.id, state="NEW", owner=None, owner_tick=None, attempts=0, give_backs=0, due=None, expires=expires
            )
        else:
            self.change(one.id, state=str(state))

    @rule(which=st.integers(0, 50))
    def edit(self, which: int) -> None:
        if not self.model:
            return
        one = self.model[which % len(self.model)]
        if one.state == "NEW":
            self.operator.edit(one.id, "why", payload=[one.payload])
            self.change(one.id, payload=[one.payload])
        else:
            with pytest.raises(IllegalMove):
                self.operator.edit(one.id, "why", payload=0)

    @rule(seconds=st.sampled_from([500, 1500, 4000]))
    def shift(self, seconds: float) -> None:
        self.quiet.database.shift_clock(seconds)
        self.now += seconds

    @rule()
    def reap(self) -> None:
        late = [one for one in self.model if one.state == "NEW" and one.expires is not None and one.expires <= self.now]
        assert self.queue_of(self.keeper.process).caretaker().reap() == len(late)
        for one in late:
            self.change(one.id, state="DEAD")

    @rule(who=st.integers(0, 1), how=st.sampled_from(["lease", "stop", "row"]), at_once=st.booleans())
    def die(self, who: int, how: str, at_once: bool) -> None:
        dead = self.workers[who]
        match how:
            case "lease":
                by_hand(self.quiet.database, "update process set lease_until = 1 where id = :id", id=dead.process.id)
            case "stop":
                dead.process.stop()
            case "row":
                by_hand(self.quiet.database, "delete from process where id = :id", id=dead.process.id)
        dead.is_alive = False
        self.workers[who] = self.start()
        if at_once:
            self.free_the_dead()

    @rule()
    def free_the_dead(self) -> None:
        living = {worker.process.id for worker in self.workers}
        held = [one for one in self.model if one.state == "ACK" and one.owner not in living]
        assert self.queue_of(self.keeper.process).caretaker().free_the_dead() == len(held)
        for one in held:
            policy, most = INBOXES[one.inbox]
            if policy == "again" and one.attempts - one.give_backs < most:
                self.change(one.id, state="NEW", owner=None, owner_tick=None)
            else:
                self.change(one.id, state="ERR" if policy == "err" else "DEAD")

    @invariant()
    def the_table_is_what_the_model_says(self) -> None:
        found = [
            (r["id"], r["inbox"], json.loads(r["payload"]), r["state"], r["owner"], r["owner_tick"], r["attempts"],
             r["give_backs"], r["deliver_after"] is not None, r["ttl_s"], r["expires_at"] is not None)
            for r in rows(self.quiet.database, "message")
        ]  # fmt: skip
        expected = [
            (m.id, m.inbox, m.payload, m.state, m.owner, m.owner_tick, m.attempts,
             m.give_backs, m.due is not None, m.ttl_s, m.expires is not None)
            for m in self.model
        ]  # fmt: skip
        assert found == expected


def test_the_queue_does_what_its_model_does(quiet: Quiet) -> None:
    examples, steps = EXAMPLES[quiet.database.dialect]

    class Machine(QueueMachine):
        pass

    Machine.quiet = quiet
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
