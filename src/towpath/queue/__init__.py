"""The SQL message queue: messages, inboxes, outboxes. May import `db` and the core modules.

A message is a row; its state is where it is on its way; a claim is one guarded update that gives it to one process.
Nothing here needs a supervisor: any process that reads an inbox frees what a dead process held. The state machine is
in `state.py`, the moves as SQL in `messages.sql`, and the order of steps in which the dead are freed in `caretaker.py`.
"""

from towpath.queue.inbox import Inbox
from towpath.queue.model import Answer, GiveBack, Message, is_aborted
from towpath.queue.outbox import Outbox
from towpath.queue.service import Queue
from towpath.queue.states import MessageState, OnOwnerDeath

__all__ = ["Answer", "GiveBack", "Inbox", "Message", "MessageState", "OnOwnerDeath", "Outbox", "Queue", "is_aborted"]
