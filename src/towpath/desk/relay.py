"""The relay: what the outbox holds is appended to topics, each row once (docs/explanation/desk.md, 5 to 7).

One process sends for a flow: it has the flow's row in `desk_relay`, which is freed when the process dies. Who does not
know yet that it was taken for dead is fenced by the producer of its successor.
"""

from __future__ import annotations

import logging
from contextlib import suppress

from towpath.db.bells import Bell
from towpath.desk.flow_relay import FlowRelay
from towpath.desk.sending import RELAY_BELL
from towpath.desk.sending_parts import SendingParts
from towpath.errors import DatabaseError, LogError, ProducerFenced
from towpath.service import Result, Service

logger = logging.getLogger(__name__)


class Relay(Service):
    """Sends for all flows that no other living process sends for."""

    name = "relay"

    def __init__(self, parts: SendingParts) -> None:
        super().__init__(parts.events)
        self._parts = parts
        self._flows: dict[str, FlowRelay] = {}
        self._bell: Bell | None = None

    def run_once(self) -> Result:
        if self._bell is not None:
            self._bell.clear()
        self.parts_of_the_dead()
        done = sum(self._send(flow) for flow in self._claimed())
        return Result(done, 0 if done else self._parts.settings.desk.relay_s)

    def parts_of_the_dead(self) -> int:
        """Flows whose relay has died are nobody's; returns how many."""
        parts = self._parts
        dead = parts.dead_among(parts.outbox.owners)
        if not dead:
            return 0
        with parts.database.transaction() as tx:
            return parts.outbox.free(tx, dead)

    def _claimed(self) -> list[str]:
        """The flows that have something to send and are this process's."""
        parts, me = self._parts, self._parts.process()
        with parts.database.glance() as tx:
            flows = parts.outbox.flows(tx, me.id)
        if flows:
            me.check_leased()
        return [flow for flow in flows if flow in self._flows or self._claim(flow)]

    def _claim(self, flow: str) -> bool:
        parts = self._parts
        with parts.database.transaction() as tx:
            return parts.outbox.claim(tx, flow, parts.process().id)

    def _send(self, flow: str) -> int:
        try:
            relay = self._flows.get(flow)
            if relay is None:
                relay = self._flows[flow] = FlowRelay(self._parts, flow)
            return relay.send()
        except ProducerFenced:
            self._close(flow)
            return 0  # whoever has taken over goes on
        except BaseException:
            self._close(flow)  # the next round asks the log how far this one came
            raise

    def _close(self, flow: str) -> None:
        relay = self._flows.pop(flow, None)
        if relay is not None:
            with suppress(LogError):
                relay.close()

    def start(self) -> None:
        self._parts.process()  # a process row before the first claim, and an error here rather than in the loop
        if self._bell is None:
            self._bell = self._parts.database.bells.hang(RELAY_BELL)
        super().start()

    def rest(self, seconds: float) -> None:
        if self._bell is not None:
            self._bell.wait(seconds)

    def wake(self) -> None:
        if self._bell is not None:
            self._bell.ring()

    def on_stop(self) -> None:
        for flow in list(self._flows):
            self._close(flow)
        with suppress(DatabaseError), self._parts.database.transaction() as tx:
            self._parts.outbox.free(tx, [self._parts.process().id])
