"""Notifications of one process: what `runtime.notify` is."""

from __future__ import annotations

from dataclasses import dataclass

from towpath.core.events import EventKind, Events
from towpath.core.service import Service
from towpath.db import Database
from towpath.db.event_log import EventLog
from towpath.errors import UnknownTarget
from towpath.notify.channels import Channel, Email, Webhook
from towpath.notify.courier import FUNCTION, MESSAGE, Collector, Courier, inbox_of
from towpath.notify.model import Notices, NoticeStore, StoredNotice, TargetDelivery, delivery, trial
from towpath.queue import Outbox, Queue
from towpath.queue.consumers import SynchronousInbox
from towpath.queue.payload import new_id
from towpath.settings import EmailSettings, NotifySettings, WebhookSettings

OUTBOX = "notify"
LOOKED_AT = 100  # messages of a target


@dataclass(frozen=True, slots=True)
class NotificationTarget:
    """Where notifications go, without its secrets."""

    name: str
    way: str  # `webhook` or `e-mail`
    to: str
    kinds: tuple[str, ...]


class NotifyService:
    """`notices` takes what parts report; `services` deliver it, in any number of processes."""

    def __init__(
        self, database: Database, settings: NotifySettings, queue: Queue, events: Events, event_log: EventLog
    ) -> None:
        self.settings = settings
        self.notices = Notices(database, event_log, settings)
        self._database = database
        self._queue = queue
        self._events = events
        self._event_log = event_log
        self._store = NoticeStore(database)

    def targets(self) -> list[NotificationTarget]:
        """Those in the settings."""
        hooks = [
            NotificationTarget(hook.name, "webhook", _host(hook), tuple(hook.kinds)) for hook in self.settings.webhooks
        ]
        mails = [
            NotificationTarget(mail.name, "e-mail", ", ".join(mail.to), tuple(mail.kinds))
            for mail in self.settings.emails
        ]
        return hooks + mails

    def deliveries(self) -> dict[str, TargetDelivery]:
        """Whether what each target was handed has reached it, by its name; of its newest messages."""
        return {target.name: self._delivery(target.name) for target in self.targets()}

    def _delivery(self, name: str) -> TargetDelivery:
        found = self._queue.browser().page(limit=LOOKED_AT, inbox=inbox_of(name), function=FUNCTION)
        with self._database.glance() as tx:
            delayed = self._event_log.page(tx, limit=LOOKED_AT, kind=EventKind.NOTIFICATION_DELAYED, subject=name)
        return delivery(found, {str(each.data.get(MESSAGE)): each.why for each in reversed(delayed)})

    def page(self, *, limit: int = 100, before: int | None = None) -> list[StoredNotice]:
        """Notices, the newest first; `before` is the `seq` of the last one of the page before."""
        with self._database.glance() as tx:
            return self._store.page(tx, limit=limit, before=before)

    def services(self) -> list[Service]:
        """The services that some process has to run: the collector, and a worker for each target."""
        workers: list[Service] = [self._worker(each) for each in self._settings_of_targets()]
        return [*workers, self.collector()]

    def collector(self) -> Collector:
        kinds = {target.name: target.kinds for target in self.targets()}
        return Collector(self._database, self._outbox(), self.settings, kinds, self._events)

    def try_out(self, name: str) -> str:
        """Deliver a message for trial to one target now, past the queue; raises `NotDelivered`. Returns its id."""
        message_id = new_id()
        self._channel(self._named(name)).send(message_id, trial())
        return message_id

    def _outbox(self) -> Outbox:
        for target in self.targets():
            self._queue.inbox(inbox_of(target.name))  # so that it is known before its worker runs
        return self._queue.outbox(OUTBOX)

    def _settings_of_targets(self) -> list[WebhookSettings | EmailSettings]:
        return [*self.settings.webhooks, *self.settings.emails]

    def _named(self, name: str) -> WebhookSettings | EmailSettings:
        for each in self._settings_of_targets():
            if each.name == name:
                return each
        raise UnknownTarget(name, (target.name for target in self.targets()))

    def _channel(self, settings: WebhookSettings | EmailSettings) -> Channel:
        notify = self.settings
        if isinstance(settings, WebhookSettings):
            return Webhook(settings, notify.timeout_s, notify.ca_file)
        return Email(settings, notify.smtp, notify.timeout_s, notify.ca_file)

    def _worker(self, settings: WebhookSettings | EmailSettings) -> SynchronousInbox:
        channel = self._channel(settings)
        courier = Courier(settings.name, channel, self.settings.attempts, self._database, self._event_log)
        inbox = self._queue.synchronous(inbox_of(settings.name))
        inbox.on(FUNCTION)(courier.deliver)
        return inbox


def _host(hook: WebhookSettings) -> str:
    """Without the path, which may hold a token."""
    return "/".join(hook.url.split("/")[:3])
