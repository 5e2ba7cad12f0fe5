"""Logs and producers for the workers: opened, kept from batch to batch, and what their errors mean to a flow.

A task is short and a connection to Kafka is not: a client asks the broker for its members, a producer for its number,
which takes longer than writing some thousand records. Workers are used again for the next batch, so what they have
opened stays with the process, by the settings it was opened with. A producer is taken out while someone uses it: two
at a time never share one, and of those that had an error none comes back.

Only Kafka's are kept. A SQLite file is opened in a moment, and one that was replaced must not be written to for ever.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple

from towpath.errors import DatabaseError, LogError, PartlyAppended, ProducerFenced, SinkError
from towpath.flow.failures import ErrorCode
from towpath.log import Log, Producer, open_log
from towpath.log.open import EMBEDDED, KAFKA_PREFIX
from towpath.settings import Settings

MOST_LOGS = 2
MOST_IDLE_PRODUCERS = 32  # each has threads and connections


class LeasedProducer(NamedTuple):
    """A producer to be used. One that is not fresh was opened for an earlier batch, and may be fenced since."""

    producer: Producer
    is_fresh: bool


class OpenLog:
    """A log and its idle producers."""

    def __init__(self, log: Log, closing: ExitStack, *, is_kept: bool) -> None:
        self.log = log
        self._closing = closing
        self._is_kept = is_kept
        self.users = 0
        self._idle: OrderedDict[str, Producer] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, name: str, *, is_fresh: bool = False) -> LeasedProducer:
        """The producer of that name; with `is_fresh` it is opened now, which fences all others."""
        with self._lock:
            idle = self._idle.pop(name, None)
        if idle is not None and not is_fresh:
            return LeasedProducer(idle, is_fresh=False)
        if idle is not None:
            idle.close()
        return LeasedProducer(self.log.producer(name), is_fresh=True)

    def give_back(self, producer: Producer) -> None:
        """Keep one that is as good as new for the next batch."""
        surplus = [producer]
        if self._is_kept:
            with self._lock:
                surplus = [self._idle.pop(producer.name)] if producer.name in self._idle else []
                self._idle[producer.name] = producer
                if len(self._idle) > MOST_IDLE_PRODUCERS:
                    surplus.append(self._idle.popitem(last=False)[1])
        for each in surplus:
            with suppress(LogError):
                each.close()

    def let_go(self) -> None:
        """One user less. A log that is kept stays open."""
        with self._lock:
            self.users -= 1
        if not self._is_kept:
            self.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = list(self._idle.values()), OrderedDict()
        for each in idle:
            with suppress(LogError):
                each.close()
        self._closing.close()


class LogCache:
    """The logs of this process. A forked child has its own: the clients it has inherited are without their threads."""

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[int, str], OpenLog] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, settings: Settings) -> OpenLog:
        if not settings.log.url.startswith(KAFKA_PREFIX):
            return _opened(settings, is_kept=False)  # its one user closes it
        key = (os.getpid(), settings.log.model_dump_json())
        with self._lock:
            found = self._open.get(key)
            if found is None:
                found = self._open[key] = _opened(settings, is_kept=True)
            found.users += 1
            self._open.move_to_end(key)
            unused = [each for each, log in self._open.items() if each[0] == key[0] and log.users == 0]
            surplus = [self._open.pop(each) for each in unused[: max(0, len(self._open) - MOST_LOGS)]]
        for each in surplus:
            each.close()
        return found

    def close(self) -> None:
        with self._lock:
            mine = [self._open.pop(key) for key in list(self._open) if key[0] == os.getpid()]
        for each in mine:
            each.close()


# A worker is given nothing but the sink, for each task anew: there is no other place that outlives a task.
kept_logs = LogCache()


@contextmanager
def opened(settings: Settings) -> Iterator[Log]:
    """The log of the settings, for as long as the block."""
    log = _opened(settings, is_kept=False)
    try:
        yield log.log
    finally:
        log.close()


def _opened(settings: Settings, *, is_kept: bool) -> OpenLog:
    with ExitStack() as closing:
        database: Any = None  # asked for by an embedded log only
        if settings.log.url == EMBEDDED:
            from towpath.db import open_database

            database = open_database(settings.database)
            closing.callback(database.close)
        log = open_log(settings.log, database)
        closing.callback(log.close)
        return OpenLog(log, closing.pop_all(), is_kept=is_kept)


@contextmanager
def log_errors(sink: str) -> Iterator[None]:
    """What goes wrong with a log, in the words of a flow."""
    try:
        yield
    except PartlyAppended as error:
        raise SinkError(ErrorCode.NETWORK, sink, str(error)) from error
    except ProducerFenced as error:
        text = "another attempt at the same unit has taken over, so this one has written nothing"
        raise SinkError(ErrorCode.LOG_UNAVAILABLE, sink, f"{text} ({error})") from error
    except (LogError, DatabaseError) as error:
        raise SinkError(ErrorCode.LOG_UNAVAILABLE, sink, str(error)) from error
