"""What happened. Domain code says it once; logs, console, metrics and tests subscribe.

An `Event` is a fact in the past tense. The `event` table (db/event_log.py) keeps the ones that people ask about
later; every event also goes to the subscribers of the process in which it happened, after its commit.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

logger = logging.getLogger(__name__)


class EventKind(StrEnum):
    """Everything that can happen, with what the event's subject is."""

    PROCESS_STARTED = "process_started"  # subject: process id
    PROCESS_STOPPED = "process_stopped"  # subject: process id
    PROCESS_DIED = "process_died"  # subject: process id; its lease ran out
    CLAIM_FREED = "claim_freed"  # subject: message id; its owner died, it waits again
    MESSAGE_GIVEN_UP = "message_given_up"  # subject: message id; its owner died once too often or policy says so
    MESSAGES_EXPIRED = "messages_expired"  # subject: inbox; ttl ran out before anyone took them
    MESSAGES_CLEANED = "messages_cleaned"  # subject: "queue"; retention time is over
    MESSAGE_SENT_BY_HAND = "message_sent_by_hand"  # subject: message id
    MESSAGE_ANSWERED_BY_HAND = "message_answered_by_hand"  # subject: message id
    MESSAGE_EDITED = "message_edited"  # subject: message id; the data holds what was there before
    MESSAGE_MOVED_BY_HAND = "message_moved_by_hand"  # subject: message id
    MESSAGE_FLAGGED = "message_flagged"  # subject: message id; its sender called it bad or dead
    MESSAGE_ABORTED = "message_aborted"  # subject: message id; whoever runs its handler wanted it to end
    QUEUE_REAPED_BY_HAND = "queue_reaped_by_hand"  # subject: "queue"; the data holds how many expired
    QUEUE_CLEANED_BY_HAND = "queue_cleaned_by_hand"  # subject: "queue"; the data holds how much was deleted
    TOPIC_CREATED_BY_HAND = "topic_created_by_hand"  # subject: topic
    TOPIC_GROWN_BY_HAND = "topic_grown_by_hand"  # subject: topic; the data holds how many partitions it had and has
    TOPIC_DELETED_BY_HAND = "topic_deleted_by_hand"  # subject: topic; the data holds its id and ends
    TOPIC_COPIED_BY_HAND = "topic_copied_by_hand"  # subject: topic copied to; the data holds from where
    GROUP_FORGOTTEN_BY_HAND = "group_forgotten_by_hand"  # subject: group; the data holds where it was
    RECORDS_EXPIRED = "records_expired"  # subject: topic/partition; the data holds the offsets that are gone
    FLOW_MOVED = "flow_moved"  # subject: flow/stage; the data holds from where to where; a row only of unusual moves
    FLOW_CHANGED = "flow_changed"  # subject: flow/stage; its topology is another than in the last run
    FLOW_ASKED_BY_HAND = "flow_asked_by_hand"  # subject: flow/stage; the data holds what: pause, resume, stop or reset
    FLOW_GAP_FOUND = "flow_gap_found"  # subject: flow/stage; the data holds the offsets that it will never read
    BATCH_COMMITTED = "batch_committed"  # subject: flow/stage; the data holds its counts; never a row
    SCHEMA_UPGRADED = "schema_upgraded"  # subject: migration name
    SERVICE_FAILED = "service_failed"  # subject: service name; it goes on after a pause
    SERVICE_RECOVERED = "service_recovered"  # subject: service name


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened: to what, by whom, why, with the details."""

    kind: EventKind
    subject: str
    who: str = "towpath"
    why: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


Subscriber = Callable[[Event], None]


class Events:
    """Hands each event to every subscriber of this process. A subscriber that fails is logged and harms nobody."""

    def __init__(self) -> None:
        self._subscribers: tuple[Subscriber, ...] = ()
        self._lock = threading.Lock()

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber` for each event from now on; returns what ends it."""
        with self._lock:
            self._subscribers = (*self._subscribers, subscriber)

        def unsubscribe() -> None:
            with self._lock:
                self._subscribers = tuple(s for s in self._subscribers if s is not subscriber)

        return unsubscribe

    def publish(self, event: Event) -> None:
        for subscriber in self._subscribers:
            try:
                subscriber(event)
            except Exception:
                logger.exception("a subscriber failed on %s %s", event.kind, event.subject)
