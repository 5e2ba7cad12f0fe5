"""Towpath: fault-tolerant data flows on Apache Spark that never lose a message and can prove it."""

import typing
from importlib import import_module
from typing import Any

if typing.TYPE_CHECKING:
    from towpath.errors import TowpathError
    from towpath.flow.flow import Flow, expect
    from towpath.flow.graph.sources import topic
    from towpath.flow.sinks.files.sink import files
    from towpath.flow.sinks.index.sink import index
    from towpath.flow.sinks.table.sink import table
    from towpath.gateway.outlet.sinks import collect, result
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
    "collect": "towpath.gateway.outlet.sinks",
    "connect": "towpath.runtime",
    "expect": "towpath.flow.flow",
    "files": "towpath.flow.sinks.files.sink",
    "index": "towpath.flow.sinks.index.sink",
    "result": "towpath.gateway.outlet.sinks",
    "table": "towpath.flow.sinks.table.sink",
    "topic": "towpath.flow.graph.sources",
}


def __getattr__(name: str) -> Any:
    # Loaded when first asked for: the command line shows its help without waiting for database drivers.
    if name not in _HOMES:
        raise AttributeError(f"module 'towpath' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
