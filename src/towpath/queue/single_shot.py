"""The single-shot inbox: wait for one message, or take over the one that a dead process left."""

from __future__ import annotations

import time

from towpath.queue.inbox import Inbox
from towpath.queue.message import Message
from towpath.queue.parts import Parts
from towpath.queue.state import MessageState

LOOKED_AT_FOR_STEALING = 100


class SingleShotInbox:
    """For a process that is started for one piece of work."""

    def __init__(self, parts: Parts, inbox: Inbox) -> None:
        self._parts = parts
        self.inbox = inbox

    def receive(self, timeout_s: float, *, steal: bool = True) -> Message | None:
        """The next message, claimed; none when nothing came in time.

        With `steal`, a message whose owner is dead or has stopped is taken over at once, without waiting until the
        inbox's policy is applied to it.
        """
        deadline = time.monotonic() + timeout_s
        bells = self._parts.database.bells
        bell = bells.hang(self.inbox.name)
        try:
            while True:
                bell.clear()
                claimed = self.inbox.claim(1)
                message = claimed[0] if claimed else self._steal() if steal else None
                left_s = deadline - time.monotonic()
                if message is not None or left_s <= 0:
                    return message
                due_s = self.inbox.seconds_until_due()
                bell.wait(
                    min(left_s, self._parts.settings.poll_s, float("inf") if due_s is None else max(due_s, 0.001))
                )
        finally:
            bells.take_down(self.inbox.name, bell)

    def _steal(self) -> Message | None:
        parts, process = self._parts, self._parts.process()
        claimed = [m for m in self.inbox.eavesdrop(LOOKED_AT_FOR_STEALING) if m.state is MessageState.ACK and m.owner]
        if not claimed:
            return None
        with parts.database.beats.read() as tx:
            living = parts.processes.living(tx, {m.owner for m in claimed if m.owner})
        for message in claimed:
            if message.owner not in living:
                with parts.database.single() as tx:
                    stolen = parts.messages.steal(tx, message, process.id, process.next_tick())
                if stolen is not None:
                    return stolen
        return None
