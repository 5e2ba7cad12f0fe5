"""Towpath: fault-tolerant data flows on Apache Spark that never lose a message and can prove it."""

from towpath.errors import TowpathError
from towpath.queue import Answer, GiveBack, Message, MessageState, Queue
from towpath.runtime import Runtime, connect
from towpath.settings import Settings

__all__ = ["Answer", "GiveBack", "Message", "MessageState", "Queue", "Runtime", "Settings", "TowpathError", "connect"]
