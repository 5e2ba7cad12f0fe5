"""Keeps the term in the database for a peer that is elected, in a thread of its own: a database may take its time."""

from __future__ import annotations

from typing import Protocol

from towpath.clock import Clock
from towpath.errors import DatabaseUnavailable
from towpath.events import Events
from towpath.service import Result, Service
from towpath.supervision.peer_node import PeerNode
from towpath.supervision.tenure import Ask
from towpath.supervision.timing import Timing

LOOKS_S = 0.05  # how soon it sees that this peer was elected, or surrendered


class Terms(Protocol):
    """The term in the database. Every method raises when the database does not answer."""

    def take(self) -> int | None:
        """A new term; none while another's lease lasts."""

    def renew(self, term: int) -> bool:
        """Whether the lease goes on."""

    def release(self, term: int) -> None:
        """End the lease, so that another need not wait for its end."""

    def read(self) -> None:
        """Any cheap question: the database answers, so this peer could act."""


class TermService(Service):
    """Takes, renews and releases the term as the election says, and writes into the node's tenure what came of it."""

    name = "term"

    def __init__(self, terms: Terms, node: PeerNode, timing: Timing, clock: Clock, events: Events) -> None:
        super().__init__(events)
        self.longest_pause_s = timing.renew_s
        self._terms = terms
        self._node = node
        self._clock = clock
        self._tenure = node.tenure

    @property
    def number(self) -> int:
        """The term under which this process may act; 0: none. By the local clock it ends before the lease does."""
        return self._tenure.term(self._clock.monotonic())

    def run_once(self) -> Result:
        ask = self._tenure.due(self._node.view().role, self._clock.monotonic())
        if ask is not None:
            self._ask(ask)
        return Result(int(ask is not None), LOOKS_S)

    def on_stop(self) -> None:
        if self.number:
            try:
                self._ask(Ask.RELEASE)
            except DatabaseUnavailable:  # then it ends by itself
                return

    def _ask(self, ask: Ask) -> None:
        asked_at = self._clock.monotonic()
        try:
            term = self._answer(ask)
        except Exception:
            self._tenure.not_reached(self._clock.monotonic())
            raise
        if ask is Ask.READ:
            self._tenure.read(asked_at)
        elif term:
            self._tenure.granted(term, asked_at)
        else:
            self._tenure.refused(asked_at)

    def _answer(self, ask: Ask) -> int | None:
        """The term that is held now."""
        held = self.number
        match ask:
            case Ask.TAKE:
                return self._terms.take()
            case Ask.RENEW:
                return held if held and self._terms.renew(held) else None
            case Ask.RELEASE:
                if held:
                    self._terms.release(held)
            case Ask.READ:
                self._terms.read()
        return None
