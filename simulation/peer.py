"""A simulated peer: the product's election, tenure and watch, joined as the product joins them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from simulation.database import NotCoordinator
from simulation.process import Process
from simulation.twins import ElectionWithoutTieBreak, Twin
from towpath.supervision.coordinator.watch import (
    Decision,
    DeclareDead,
    DutyWatch,
    GiveUp,
    SendPing,
    StartProcess,
    Watched,
    WatchTimeouts,
)
from towpath.supervision.election.election import Ask, Election, PeerRole, Tenure
from towpath.supervision.election.messages import Ping, Pong, Send

if TYPE_CHECKING:
    from simulation.cluster import Cluster

LOOK_S = 0.25
ROLE_SEEN_S = 0.1  # how soon the thread of the term sees a new role
NO_BEAT_S = 1e6
BETWEEN_ACTS_S = 0.005  # a pause may come between any two of them


class Peer(Process):
    """A process that takes part in the election, and acts while it holds the term."""

    def __init__(self, cluster: Cluster, number: int, launch: int) -> None:
        self.number = number
        self._rng = random.Random(cluster.world.rng.getrandbits(64))
        self._rate = cluster.rates[number]  # its clock drifts
        self._offset = self._rng.uniform(0, 1000)
        self._timing = cluster.timing
        self._granted = 0  # the last term that it was given
        self._watch_term = 0
        self._watch: DutyWatch | None = None
        self._tick_at = float("inf")
        self._is_asking = False
        self._is_looking = False
        super().__init__(cluster, cluster.name_of(number), launch)

    def clock(self) -> float:
        """What its own clock shows."""
        return self._offset + self.world.now * self._rate

    def begin(self) -> None:
        super().begin()
        kind = ElectionWithoutTieBreak if self.cluster.twin is Twin.NO_TIE_BREAK else Election
        self.election = kind(self.number, self.cluster.numbers, self._timing, self._rng, self.clock())
        self.tenure = Tenure(self._timing, self.clock())
        self._plan_tick()
        self.after(self._rng.uniform(0, ROLE_SEEN_S), self._keep_term)
        self.after(self._rng.uniform(0, LOOK_S), self._look)

    @property
    def role(self) -> PeerRole | None:
        return self.election.role if self.is_at_work else None

    def acting_term(self) -> int:
        """The term under which it may act by its own clock."""
        if self.cluster.twin is Twin.NO_TERM_CHECK:
            return self._granted if self.election.role is PeerRole.COORDINATOR else 0
        return self.tenure.term(self.clock())

    # The election.

    def receive(self, sender: str, message: Any) -> None:
        super().receive(sender, message)
        if not self.is_at_work:
            return
        if isinstance(message, Pong):
            if self._watch is not None:
                self._watch.pong(sender, message.nonce, message.launch)
            return
        number = self.cluster.number_of.get(sender)
        if number is not None:
            now = self._report()
            self._send(self.election.receive(number, message, now))

    def _tick(self) -> None:
        self._tick_at = float("inf")
        self._send(self.election.tick(self._report()))

    def _report(self) -> float:
        """Tell the election under which term this peer acts by its own clock, and what that shows."""
        now = self.clock()
        self.election.report(self.tenure.term(now), self.tenure.is_fit(now))
        return now

    def _send(self, sends: list[Send]) -> None:
        for send in sends:
            self.network.send(self.name, self.cluster.name_of(send.to), send.message)
        self._plan_tick()

    def _plan_tick(self) -> None:
        due = (self.election.next_tick(self.clock()) - self._offset) / self._rate
        if due < self._tick_at - 1e-9:
            self._tick_at = due
            self.after(max(0.0, due - self.world.now) + 1e-6, self._tick)

    # The term, as `TermService` keeps it.

    def _keep_term(self) -> None:
        self.after(ROLE_SEEN_S, self._keep_term)
        now = self.clock()
        ask = None if self._is_asking else self.tenure.due(self.election.role, now)
        if ask is not None:
            self._ask_for_term(ask, now)

    def _ask_for_term(self, ask: Ask, asked_at: float) -> None:
        self._is_asking = True
        self.ask(self._statement(ask), lambda term: self._term_answered(ask, term, asked_at), self._term_not_answered)

    def _statement(self, ask: Ask) -> Callable[[], int | None]:
        database, held, lease_s = self.database, self.tenure.term(self.clock()), self._timing.lease_s
        match ask:
            case Ask.TAKE:
                return lambda: database.take(self.id, lease_s)
            case Ask.RENEW:
                return lambda: held if database.renew(held, self.id, lease_s) else None
            case Ask.RELEASE:
                return lambda: database.release(held, self.id)
        return lambda: None

    def _term_answered(self, ask: Ask, term: int | None, asked_at: float) -> None:
        self._is_asking = False
        if ask is Ask.READ:
            self.tenure.read(asked_at)
        elif term:
            self._granted = term
            self.tenure.granted(term, asked_at)
        else:
            self.tenure.refused(asked_at)

    def _term_not_answered(self) -> None:
        self._is_asking = False
        self.tenure.not_reached(self.clock())

    # The watch, as the coordinator carries it out.

    def _look(self) -> None:
        self.after(LOOK_S, self._look)
        term = self.acting_term()
        if not term or self._is_looking:
            return
        if self._watch is None or term != self._watch_term:
            self._watch, self._watch_term = DutyWatch(WatchTimeouts(), self._rng, self.clock()), term
        self._is_looking = True
        asked_at = self.clock()
        self.ask(self.cluster.watched, lambda duties: self._decide(term, duties, asked_at), self._stop_looking)

    def _stop_looking(self) -> None:
        self._is_looking = False

    def _decide(self, term: int, duties: list[Watched], read_at: float) -> None:
        self._is_looking = False
        if self._watch is None or term != self._watch_term:
            return
        if self.cluster.twin is Twin.NO_BEAT_CHECK:
            duties = [duty if duty.beat_s is None else replace(duty, beat_s=NO_BEAT_S) for duty in duties]
        decisions = self._watch.look(duties, read_at, self.clock())
        acts: list[Decision] = []
        for decision in decisions:
            if isinstance(decision, SendPing):
                self.network.send(self.name, decision.name, Ping(decision.nonce))
            else:
                acts.append(decision)
        if acts:
            self._is_looking = True
            self._carry_out_acts(term, acts)

    def _carry_out_acts(self, term: int, acts: list[Decision]) -> None:
        """One after another; each looks at its own clock first, and the database looks at the term."""
        if not acts or self.acting_term() != term:
            self._is_looking = False
            return
        act, rest = acts[0], acts[1:]
        self.after(
            self._rng.uniform(0, BETWEEN_ACTS_S),
            lambda: self.ask(
                lambda: self._act(term, act),
                lambda done: self._acted(term, act, done, rest),
                lambda: self._carry_out_acts(term, rest),
            ),
        )

    def _act(self, term: int, act: Decision) -> object:
        """Inside the database."""
        database, twin = self.database, self.cluster.twin
        try:
            database.act(term, self.id, guarded=twin is not Twin.NO_TERM_CHECK)
        except NotCoordinator as error:
            return error
        match act:
            case StartProcess(name, launch):
                return database.launch(name, launch)
            case DeclareDead():
                return database.declare_dead(act, guarded=twin is not Twin.NO_BEAT_CHECK)
            case GiveUp(name, launch):
                database.give_up(name, launch)
        return None

    def _acted(self, term: int, act: Decision, done: object, rest: list[Decision]) -> None:
        if isinstance(done, NotCoordinator):
            self.tenure.refused(self.clock())
            self._is_looking = False
            return
        if isinstance(act, StartProcess) and isinstance(done, int):
            self.cluster.start(act.name, done)
            self.ask(lambda: self.database.launched(act.name, done), lambda _: None)
        if isinstance(act, DeclareDead) and done and not act.is_certain:
            self.cluster.kill(act.name, act.launch)
        self._carry_out_acts(term, rest)
