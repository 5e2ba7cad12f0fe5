"""Writes down what a peer's socket has to tell: the thread that receives must not wait for a database."""

from __future__ import annotations

from collections import deque

from towpath.db import Database
from towpath.db.event_log import EventLog
from towpath.events import Event, Events
from towpath.service import Result, Service
from towpath.supervision.udp import UdpSocket

LOOK_S = 2.0
KEPT = 100  # while the database is away


class RefusedPackets(Service):
    """Keeps the events of a socket in the `event` table."""

    name = "refused packets"

    def __init__(self, udp: UdpSocket, database: Database, event_log: EventLog, events: Events) -> None:
        super().__init__(events)
        self._database = database
        self._event_log = event_log
        self._waiting: deque[Event] = deque(maxlen=KEPT)
        udp.tell = self._waiting.append

    def run_once(self) -> Result:
        done = 0
        while self._waiting:
            with self._database.transaction() as tx:
                self._event_log.record(tx, self._waiting[0])
            self._waiting.popleft()
            done += 1
        return Result(done, LOOK_S)
