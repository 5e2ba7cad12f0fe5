"""One look at an instance: all that is told of it, read at once."""

from __future__ import annotations

from dataclasses import dataclass

from towpath.actors.browser import Browser, Question
from towpath.actors.instance import Instance, inbox_of
from towpath.actors.parts import Parts
from towpath.actors.phase import Phase
from towpath.db.event_log import StoredEvent
from towpath.errors import NotFailed
from towpath.queue.message import Message
from towpath.queue.state import MessageState

MOST_EVENTS = 10


@dataclass(frozen=True, slots=True)
class Look:
    """An instance with what is around it."""

    instance: Instance
    head: Message | None  # its present state; of one at rest, the last one
    failed: Message | None  # the state in which it failed
    questions: list[Question]
    children: list[Instance]
    history: list[Message]  # the newest first
    events: list[StoredEvent]

    @property
    def untaken(self) -> list[Message]:
        """Starts that no process has looked at yet."""
        return [each for each in self.history if each.related_id is None and each.state is MessageState.NEW]


def look_at(parts: Parts, actor: str, name: str, last: int) -> Look | None:
    """With the last messages of its history; None when there is no such instance."""
    browser = Browser(parts)
    with parts.database.glance() as tx:
        instance = parts.instances.read(tx, inbox_of(actor, name))
    if instance is None:
        return None
    with parts.database.read() as tx:
        events = parts.event_log.page(tx, limit=MOST_EVENTS, subject=instance.name)
        history = parts.queue.messages.page(tx, limit=last, inbox=instance.inbox) if last else []
    return Look(
        instance,
        browser.head(instance),
        _failed(browser, instance),
        browser.questions(instance),
        browser.children(instance),
        history,
        events,
    )


def _failed(browser: Browser, instance: Instance) -> Message | None:
    """None too when its messages are past their retention time."""
    if instance.phase is not Phase.FAILED:
        return None
    try:
        return browser.failed_state(instance)
    except NotFailed:
        return None
