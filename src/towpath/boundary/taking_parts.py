"""What the runs of all senders share."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property

from towpath.access.block_store import BlockStore
from towpath.access.blocks import Blocks
from towpath.boundary.sender_store import SenderStore
from towpath.boundary.streams import Streams
from towpath.boundary.turnstile import Turnstile
from towpath.boundary.upload_store import UploadStore
from towpath.db import Database
from towpath.events import Events
from towpath.log.log import Log
from towpath.log.sqlite_log import SqliteLog
from towpath.settings import Settings

# Of one transaction. On SQLite others wait for it; a broker would rather have few large ones.
SQLITE_LINES = 8_000
SQLITE_BYTES = 4 << 20
BROKER_LINES = 100_000
BROKER_BYTES = 32 << 20
# Senders at work on SQLite: while one writes, the next ones make their records. With one, all would wait for it to wake
# up; with fifty, some would wait for the lock until they had to give up.
AT_ONCE = 8


@dataclass(frozen=True)
class TakingParts:
    """Database, log and stores of a gateway."""

    settings: Settings
    database: Database
    events: Events
    open_log: Callable[[], Log]
    streams: Streams
    uploads: UploadStore
    senders: SenderStore
    blocks: Blocks
    rules: BlockStore
    turnstile: Turnstile = field(default_factory=lambda: Turnstile(AT_ONCE))

    @cached_property
    def log(self) -> Log:
        """Opened by the first who sends: uploads can be looked at where there is none."""
        return self.open_log()

    def turn(self) -> AbstractContextManager[None]:
        """To be held while lines are taken: on SQLite by few at a time, and by none before its turn."""
        return self.turnstile.turn() if isinstance(self.log, SqliteLog) else nullcontext()

    @property
    def most_lines(self) -> int:
        return SQLITE_LINES if isinstance(self.log, SqliteLog) else BROKER_LINES

    @property
    def most_bytes(self) -> int:
        return SQLITE_BYTES if isinstance(self.log, SqliteLog) else BROKER_BYTES
