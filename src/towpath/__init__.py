"""Towpath: fault-tolerant data flows on Apache Spark that never lose a message and can prove it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from towpath.boundary.upload_sinks import collect, result
    from towpath.errors import TowpathError
    from towpath.flow.flow import Flow, expect
    from towpath.flow.sinks.files import files
    from towpath.flow.sinks.index import index
    from towpath.flow.sinks.table import table
    from towpath.flow.topic_reference import topic
    from towpath.queue import Answer, GiveBack, Message, MessageState, Queue
    from towpath.runtime import Runtime, connect
    from towpath.settings import Settings

__all__ = [
    "Answer",
    "Flow",
    "GiveBack",
    "Message",
    "MessageState",
    "Queue",
    "Runtime",
    "Settings",
    "TowpathError",
    "collect",
    "connect",
    "expect",
    "files",
    "index",
    "result",
    "table",
    "topic",
]

_HOMES = {
    "Answer": "towpath.queue",
    "Flow": "towpath.flow.flow",
    "GiveBack": "towpath.queue",
    "Message": "towpath.queue",
    "MessageState": "towpath.queue",
    "Queue": "towpath.queue",
    "Runtime": "towpath.runtime",
    "Settings": "towpath.settings",
    "TowpathError": "towpath.errors",
    "collect": "towpath.boundary.upload_sinks",
    "connect": "towpath.runtime",
    "expect": "towpath.flow.flow",
    "files": "towpath.flow.sinks.files",
    "index": "towpath.flow.sinks.index",
    "result": "towpath.boundary.upload_sinks",
    "table": "towpath.flow.sinks.table",
    "topic": "towpath.flow.topic_reference",
}


def __getattr__(name: str) -> Any:
    # Loaded when first asked for: the command line shows its help without waiting for database drivers.
    if name not in _HOMES:
        raise AttributeError(f"module 'towpath' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
