"""Topics with partitions and offsets, on SQLite tables or on Kafka.

One protocol (`log.py`), two implementations: `SqliteLog` and `KafkaLog`; one conformance suite holds both to it.

A record goes to the partition that its key decides (Kafka's murmur2, on both) or that it names; without either,
records go round by a sequence number. Within a partition offsets increase, but they are not dense: aborted
transactions, transaction markers and deleted records leave holes, so a difference of offsets is never a count.

Readers see committed records only. Outside a transaction `append` is at-least-once when the caller repeats it after
`PartlyAppended`. Exactly once needs a `Producer`: its transaction appends to any topics and moves positions of groups
in one act, and opening a producer of the same name, anywhere, fences the older one. After a crash the successor reads
the positions that its predecessor committed and goes on from there.

May import `towpath.db`, `towpath.spark` and the core.
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
