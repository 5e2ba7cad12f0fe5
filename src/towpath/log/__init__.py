"""Topics with partitions and offsets, on SQLite tables or on Kafka: one protocol, two implementations.

The package exports what appends and reads records; `open_log` is loaded when first asked for.
"""

import typing

from towpath.log.log import Log, LogTransaction, Offsets, Positions, Producer
from towpath.log.record import NewRecord, Position, Record
from towpath.log.topic import Topic

if typing.TYPE_CHECKING:
    from towpath.log.open import open_log


__all__ = [
    "Log",
    "LogTransaction",
    "NewRecord",
    "Offsets",
    "Position",
    "Positions",
    "Producer",
    "Record",
    "Topic",
    "open_log",
]


def __getattr__(name: str) -> typing.Any:
    # Loaded when first asked for: a worker of Spark that reads records has no use for drivers and settings.
    if name == "open_log":
        from towpath.log.open import open_log

        globals()[name] = open_log
        return open_log
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
