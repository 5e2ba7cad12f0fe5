"""The single-shot inbox: wait for one message, or take over the one that a dead process left."""

from __future__ import annotations

import time

from towpath.queue.caretaker import Caretaker
from towpath.queue.inbox import Inbox
from towpath.queue.message import Message
from towpath.queue.parts import Parts

LOOKED_AT_FOR_STEALING = 100


class SingleShotInbox:
    """For a process that is started for one piece of work."""

    def __init__(self, parts: Parts, inbox: Inbox) -> None:
        self._parts = parts
        self.inbox = inbox

    def receive(self, timeout_s: float, *, steal: bool = True) -> Message | None:
        """The next message, claimed; none when nothing came in time.

        With `steal`, what a dead or stopped owner held is freed at once, by the inbox's policy and with a record, and
        taken over if the policy allows it.
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
        parts = self._parts
        owners = {m.owner for m in self.inbox.eavesdrop(LOOKED_AT_FOR_STEALING) if m.owner is not None}
        if not owners:
            return None
        caretaker = Caretaker(parts)
        caretaker.mark_gone()
        with parts.database.beats.glance() as tx:
            gone = owners - parts.processes.living(tx, owners)
        if sum(map(caretaker.free_claims_of, gone)) == 0:
            return None
        claimed = self.inbox.claim(1)
        return claimed[0] if claimed else None
