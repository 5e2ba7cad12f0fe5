"""Ends uploads that nobody goes on with, and removes what is left of those that have ended.

Expiry rules name who answers for them. Files of an upload that has ended are removed as often as some are found: a
record that is replayed late may bring new ones. `GatewayCaretaker` closes what senders that do not come back leave
open.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

from towpath.core.clock import MICROS
from towpath.core.events import Event, EventKind, Events
from towpath.core.service import RoundResult, Service
from towpath.db import Database
from towpath.db.event_log import EventLog
from towpath.errors import IllegalUploadMove, UnknownUpload
from towpath.gateway.outlet.store import remove_upload
from towpath.gateway.sender_run import GROUP_PREFIX
from towpath.gateway.service import Gateway
from towpath.gateway.uploads.model import StoredUpload, UploadMove, UploadState
from towpath.gateway.uploads.store import UploadStore
from towpath.log.log import Log
from towpath.settings import ExpirySettings, GatewaySettings

logger = logging.getLogger(__name__)
AT_ONCE = 100
ALL_STREAMS = "*"
ID_CHARACTERS = 36


class UploadJanitor(Service):
    """Expires uploads and removes what is left of ended ones. Any number may run; two at once share the work."""

    name = "upload janitor"

    def __init__(
        self,
        root: Path,
        settings: GatewaySettings,
        database: Database,
        log: Callable[[], Log],
        events: Events,
        event_log: EventLog,
    ) -> None:
        super().__init__(events)
        self._root = root
        self._settings = settings
        self._database = database
        self._log = log
        self._record = event_log.record
        self._uploads = UploadStore(database)

    def run_once(self) -> RoundResult:
        done = sum(self._expire(rule) for rule in self._settings.expiry)
        done += self.remove_files() + self.forget_groups() + self.forget_uploads()
        return RoundResult(done, self._settings.janitor_s)

    # Expiry

    def _expire(self, rule: ExpirySettings) -> int:
        """End the uploads that a rule speaks of; returns how many."""
        before, done = self._database.now() - int(rule.after_s * MICROS), 0
        stream = None if rule.stream == ALL_STREAMS else rule.stream
        while not self.is_stopping:
            with self._database.read() as tx:
                found = self._uploads.idle(tx, UploadState(rule.state), before, AT_ONCE, stream)
            ended = sum(self._end(upload, rule) for upload in found)
            done += ended
            if len(found) < AT_ONCE or not ended:
                break
        return done

    def _end(self, upload: StoredUpload, rule: ExpirySettings) -> bool:
        data = {"stream": upload.stream, "from": upload.state, "after_s": rule.after_s}
        try:
            with self._database.transaction() as tx:
                self._uploads.move(tx, upload.id, UploadMove.EXPIRE, who=rule.approved_by, why=rule.why)
                self._record(tx, Event(EventKind.UPLOAD_EXPIRED, upload.id, rule.approved_by, rule.why, data))
        except IllegalUploadMove:
            return False  # its client came back a moment ago, or another janitor was faster
        remove_upload(self._root, upload.id)
        return True

    # What is left

    def remove_files(self) -> int:
        """Remove the directories of uploads that have ended; returns how many."""
        if not self._root.is_dir():
            return 0
        names = [each.name for each in self._root.iterdir() if _is_id(each.name)]
        return sum(remove_upload(self._root, name) for name in names if self._is_ended(name))

    def forget_groups(self) -> int:
        """Have the log forget how far the senders of uploads were that have ended; returns how many."""
        log, done = self._log(), 0
        for group, upload in _sender_groups(log):
            if self._is_ended(upload, unknown=True):
                log.forget_group(group)
                done += 1
        return done

    def forget_uploads(self) -> int:
        """Delete the rows of uploads that have ended long ago; returns how many."""
        if self._settings.retention_s is None:
            return 0
        before, done = self._database.now() - int(self._settings.retention_s * MICROS), 0
        while not self.is_stopping:
            with self._database.transaction() as tx:
                found = self._uploads.ended(tx, before, AT_ONCE)
                for upload in found:
                    self._uploads.forget(tx, upload.id)
                if found:
                    self._record(tx, Event(EventKind.UPLOADS_FORGOTTEN, "gateway", data={"uploads": len(found)}))
            done += len(found)
            if len(found) < AT_ONCE:
                break
        return done

    def _is_ended(self, upload: str, *, unknown: bool = False) -> bool:
        """Whether an upload has ended. The files of an unknown one may belong to something else, and are left."""
        try:
            with self._database.read() as tx:
                return self._uploads.read(tx, upload).is_ended
        except UnknownUpload:
            return unknown


def _sender_groups(log: Log) -> Iterator[tuple[str, str]]:
    for group in log.groups():
        upload = group.removeprefix(GROUP_PREFIX)[:ID_CHARACTERS]
        if group.startswith(GROUP_PREFIX) and _is_id(upload):
            yield group, upload


def _is_id(name: str) -> bool:
    try:
        return str(UUID(name)) == name
    except ValueError:
        return False


class GatewayCaretaker(Service):
    """Closes idle senders. Runs in every process that has opened the gateway; two at once share the work."""

    name = "gateway caretaker"

    def __init__(self, gateway: Gateway, settings: GatewaySettings, events: Events) -> None:
        super().__init__(events)
        self._gateway = gateway
        self._pause_s = min(settings.idle_s, settings.settle_s) / 2

    def run_once(self) -> RoundResult:
        return RoundResult(self._gateway.close_idle() + self._gateway.settle_idle(), self._pause_s)
