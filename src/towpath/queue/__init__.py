"""The SQL message queue: messages, inboxes and outboxes. The README beside this file names its parts and rules."""

from towpath.queue.inbox import Inbox
from towpath.queue.model import Answer, GiveBack, Message, is_aborted
from towpath.queue.outbox import Outbox
from towpath.queue.service import Queue
from towpath.queue.states import MessageState, OnOwnerDeath

__all__ = ["Answer", "GiveBack", "Inbox", "Message", "MessageState", "OnOwnerDeath", "Outbox", "Queue", "is_aborted"]
