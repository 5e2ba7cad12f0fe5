"""Taking down what people should hear of."""

from __future__ import annotations

from towpath.clock import MICROS
from towpath.db import Database, Transaction
from towpath.db.event_log import EventLog
from towpath.events import Event
from towpath.notify.notice import Notice
from towpath.notify.notice_store import NoticeStore
from towpath.settings import NotifySettings


class Notices:
    """The `Teller` of a database: notices wait in a table until their window ends. Each new one is an event too."""

    def __init__(self, database: Database, event_log: EventLog, settings: NotifySettings) -> None:
        self._database = database
        self._event_log = event_log
        self._settings = settings
        self._store = NoticeStore(database)

    def tell(self, tx: Transaction, notice: Notice) -> None:
        not_since_us = self._database.now() - int(self._settings.repeat_s * MICROS)
        if self._store.add(tx, notice, not_since_us):
            event = Event(notice.kind.event, notice.subject, why=notice.title, data=notice.data)
            self._event_log.record(tx, event)
