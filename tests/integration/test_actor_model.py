"""A random actor under random crashes, aborts, duplicates and strays, against a model of a few lines."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import Phase as HypothesisPhase
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.support.quiet import LEASE_S, Quiet
from tests.support.scripted import OUT, SLEEP_S, TIMEOUT_S, WORK, Driven, Scripted, Step

from towpath.actors import Turn
from towpath.actors.engine.intake import ActorIntake
from towpath.actors.engine.recovery import InstanceRecovery
from towpath.actors.instance import Phase, inbox_of
from towpath.core import crash
from towpath.core.crash import Armed, Crashed
from towpath.core.crash import CrashPoint as P
from towpath.errors import DatabaseError, NotRunning, UnknownActor
from towpath.queue import MessageState
from towpath.settings import Settings

INSTANCES = ("a", "b")
WORDS = ("go", "sleep", "ask", "ask a while", "call", "raise")
ALL = tuple(HypothesisPhase)
POINTS = [point for point in P if point.startswith(("intake_", "actors_", "turn_", "revive_"))]


@dataclass
class Run:
    """Where a run must be, by its script alone."""

    id: str
    script: list[str]
    at: int = 0
    phase: Phase = Phase.READY
    question: str | None = None
    due_s: float | None = None


class Model(RuleBasedStateMachine):
    """Every rule leaves the machine with nothing left to do, so that the model knows where everybody is."""

    database: dict[str, Any]

    def __init__(self) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp(prefix="towpath-model-"))
        self.now_s = 0.0
        self.runs: dict[str, Run] = {}
        self.did: Counter[tuple[str, int]] = Counter()
        self.strays: list[str] = []
        self.deaths = 0
        self.opened: list[Quiet] = []

    @initialize()
    def begin(self) -> None:
        place = {"url": f"sqlite:///{self.home}/t.db", "synchronous": "normal"}
        self.place = self.database or place
        if self.database:
            self.place = {**self.database, "schema": f"m{uuid4().hex[:16]}"}
        self.driven = self._open()
        for name in (OUT, WORK):
            self.driven.quiet.queue.inbox(name)

    def _open(self) -> Driven:
        sections = {"database": self.place, "process": {"heartbeat_s": LEASE_S / 5, "lease_s": LEASE_S}}
        self.opened.append(Quiet.open(Settings(**sections)))  # type: ignore[arg-type]
        return Driven(self.opened[-1])

    # What can happen

    crashes = st.none() | st.tuples(st.sampled_from(POINTS), st.integers(1, 4))

    @rule(name=st.sampled_from(INSTANCES), script=st.lists(st.sampled_from(WORDS), max_size=5), dies=crashes)
    def start(self, name: str, script: list[str], dies: tuple[P, int] | None) -> None:
        run_id = self.driven.actors.start(Scripted, Step(script), instance=name, wants_answer=True)
        if self._is_live(name):
            self.strays.append(run_id)
        else:
            self.runs[name] = Run(run_id, script)
            self._advance(self.runs[name])
        self._settle(dies)

    @rule(seconds=st.sampled_from([TIMEOUT_S + 10, SLEEP_S + 10]), dies=crashes)
    def time_passes(self, seconds: float, dies: tuple[P, int] | None) -> None:
        self.driven.quiet.database.shift_clock(seconds)
        self.driven.quiet.process.renew()
        self.now_s += seconds
        for run in self.runs.values():
            if run.due_s is not None and run.due_s <= self.now_s:
                if run.phase is Phase.WAITING:
                    self.did[run.id, -run.at] += 1  # it tells that it is late
                self._advance(run)
        self._settle(dies)

    @rule(which=st.integers(0, 9), dies=crashes)
    def somebody_answers(self, which: int, dies: tuple[P, int] | None) -> None:
        """Also questions that nobody waits for any more."""
        inbox = self.driven.quiet.queue.inbox(WORK)
        waiting = inbox.eavesdrop(10)
        if not waiting:
            return
        chosen = waiting[which % len(waiting)].id
        claimed = inbox.claim(10)
        inbox.finish([each for each in claimed if each.id == chosen], "yes")
        others = [each for each in claimed if each.id != chosen]
        if others:
            inbox.release(others)
        for run in self.runs.values():
            if run.question == chosen:
                self._advance(run)
        self._settle(dies)

    @rule(name=st.sampled_from(INSTANCES), dies=crashes)
    def a_person_aborts(self, name: str, dies: tuple[P, int] | None) -> None:
        try:
            self.driven.actors.abort("scripted", name, who="ann", why="a whim")
        except (UnknownActor, NotRunning):
            assert not self._is_live(name)
        else:
            assert self._is_live(name)
            self._rest(self.runs[name], Phase.FAILED)
        self._settle(dies)

    @precondition(lambda self: self.runs)
    @rule(name=st.sampled_from(INSTANCES), dies=crashes, belongs=st.sampled_from(["head", "last", "another", "none"]))
    def a_stray_comes(self, name: str, dies: tuple[P, int] | None, belongs: str) -> None:
        """Also an exact copy of the message that is to run."""
        if name not in self.runs:
            return
        found = self.driven.actors.instance("scripted", name)
        if belongs == "none" and not self._is_live(name):
            return  # that is a start
        related = {"head": found.head_id, "last": found.last_id, "another": str(uuid4()), "none": None}[belongs]
        if related is None and not self._is_live(name):
            return
        box = self.driven.quiet.queue.outbox("stray")
        inbox = inbox_of("scripted", name)
        self.strays.append(box.send(inbox, "Step", {"script": ["go"]}, related_id=related))
        self._settle(dies)

    @rule(name=st.sampled_from(INSTANCES), dies=crashes)
    def a_person_kills_the_message(self, name: str, dies: tuple[P, int] | None) -> None:
        if not self._is_live(name):
            return
        head = self.driven.actors.instance("scripted", name).head
        self.driven.quiet.queue.operator("ann").set_state(head, MessageState.DEAD, "a whim")
        self._rest(self.runs[name], Phase.FAILED)
        self._settle(dies)

    @rule(name=st.sampled_from(INSTANCES), dies=crashes)
    def a_person_sends_the_message_again(self, name: str, dies: tuple[P, int] | None) -> None:
        """It does not wait any longer."""
        if not self._is_live(name):
            return
        head = self.driven.actors.instance("scripted", name).head
        operator = self.driven.quiet.queue.operator("ann")
        operator.set_state(head, MessageState.DEAD, "a whim")
        operator.set_state(head, MessageState.NEW, "another whim")
        self._advance(self.runs[name])
        self._settle(dies)

    # What must be so

    @invariant()
    def everybody_is_where_the_model_says(self) -> None:
        for name, run in self.runs.items():
            found = self.driven.actors.instance("scripted", name)
            assert (found.phase, found.run_id) == (run.phase, run.id), (name, run, found)

    @invariant()
    def all_was_sent_once(self) -> None:
        if not self.runs:
            return
        sent = self.driven.quiet.queue.inbox(OUT).eavesdrop(1000)
        assert Counter((each.payload[0], each.payload[1]) for each in sent) == self.did

    @invariant()
    def strays_are_refused(self) -> None:
        for each in self.strays:
            message = self.driven.quiet.queue.browser().message(each)
            assert message.state is MessageState.ERR, message

    def teardown(self) -> None:
        for quiet in self.opened:
            quiet.close()
        shutil.rmtree(self.home, ignore_errors=True)

    # The model itself

    def _is_live(self, name: str) -> bool:
        return name in self.runs and self.runs[name].phase not in (Phase.ENDED, Phase.FAILED)

    def _advance(self, run: Run) -> None:
        """Up to the next word that makes it wait, or to its end."""
        run.question, run.due_s, run.phase = None, None, Phase.READY
        while run.phase is Phase.READY:
            word = run.script[run.at] if run.at < len(run.script) else "end"
            if word == "end":
                run.phase = Phase.ENDED
                return
            if word == "raise":
                run.phase = Phase.FAILED
                return
            self.did[run.id, run.at] += 1
            run.at += 1
            match word:
                case "call":
                    self.did[f"{run.id}/{run.at}", 0] += 1
                    self.did[f"{run.id}/{run.at}", 1] += 1
                case "sleep":
                    run.phase, run.due_s = Phase.SLEEPING, self.now_s + SLEEP_S
                case "ask" | "ask a while":
                    run.phase, run.question = Phase.WAITING, "not known yet"
                    run.due_s = None if word == "ask" else self.now_s + TIMEOUT_S

    def _rest(self, run: Run, phase: Phase) -> None:
        run.phase, run.question, run.due_s = phase, None, None

    def _settle(self, dies: tuple[P, int] | None) -> None:
        """Let the machine do all that is to be done; with a death on the way, another process goes on."""
        if dies is not None:
            once = self.home / f"crash-{uuid4().hex}"
            crash.arm(Armed(f"{dies[0]}:{dies[1]}", once=once, victim=0))
        try:
            self.driven.settle()
        except Crashed:
            self.deaths += 1
            self.driven.die()
            self.driven = self._open()
        finally:
            crash.arm(None)
        self.driven.settle()
        for name, run in self.runs.items():
            if run.question is not None:  # which one it is the model learns from the instance
                waits = self._waits_for(name)
                assert len(waits) == 1, f"{name} waits for {waits}"
                [run.question] = waits

    def _waits_for(self, name: str) -> list[str]:
        head = self.driven.actors.instance("scripted", name).head
        return list(self.driven.quiet.queue.browser().message(head).headers.get("towpath.waits", ()))


def run_model(database: dict[str, Any], examples: int, steps: int, phases: Sequence[HypothesisPhase] = ALL) -> None:
    machine = type("Model", (Model,), {"database": database})
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        phases=phases,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    run_state_machine_as_test(machine, settings=chosen)


def test_the_model_on_sqlite() -> None:
    run_model({}, examples=25, steps=25)


@pytest.mark.part("matrix")
def test_the_model_on_postgres(postgres: Any) -> None:
    run_model({"url": postgres.url}, examples=5, steps=15)


@pytest.mark.part("matrix")
def test_the_model_for_long() -> None:
    run_model({}, examples=400, steps=50)


# Broken twins: without what keeps a promise the same model must find it broken. So the tests above can fail.


def starts_while_it_runs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ActorIntake, "_may_begin", lambda intake, instance, message, disabled: instance)


def nobody_frees_the_dead(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(InstanceRecovery, "free_the_dead", lambda reviver: 0)


def sends_before_it_is_done(patch: pytest.MonkeyPatch) -> None:
    def at_once(turn: Turn, inbox: str, function: str, payload: Any = None) -> str:
        return turn._outbox.notice(inbox, function, payload)

    patch.setattr(Turn, "notice", at_once)


def nobody_looks_for_what_was_ended_by_hand(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(InstanceRecovery, "look_for_strays", lambda reviver: 0)


@pytest.mark.part("matrix")
@pytest.mark.parametrize(
    "breaks",
    [starts_while_it_runs, nobody_frees_the_dead, sends_before_it_is_done, nobody_looks_for_what_was_ended_by_hand],
)
def test_a_broken_twin_is_caught(breaks: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    breaks(monkeypatch)
    with pytest.raises((AssertionError, DatabaseError)):
        run_model({}, examples=200, steps=25, phases=[HypothesisPhase.generate])
