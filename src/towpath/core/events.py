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
    ACTOR_RESUMED = "actor_resumed"  # subject: actor:instance; its process died, the data holds what its state declares
    ACTOR_FAILED = "actor_failed"  # subject: actor:instance; its run could not go on
    ACTOR_REFUSED = "actor_refused"  # subject: actor:instance; what was sent to it is ERR; told, not kept
    ACTOR_STARTED_BY_HAND = "actor_started_by_hand"  # subject: actor:instance
    ACTOR_ABORTED_BY_HAND = "actor_aborted_by_hand"  # subject: actor:instance
    ACTOR_WOKEN_BY_HAND = "actor_woken_by_hand"  # subject: actor:instance; the data holds when it would have run
    ACTOR_SWITCHED_BY_HAND = "actor_switched_by_hand"  # subject: actor; the data holds whether it is enabled
    PROCESS_SPAWNED = "process_spawned"  # subject: actor:instance; the data holds launch, pid and machine
    SPAWNED_ENDED = "spawned_ended"  # subject: actor:instance; a process of it died, was stopped or could not begin
    DATA_SET_BEGUN = "data_set_begun"  # subject: data set id; the data holds what it is, where and by whom
    DATA_SET_MADE = "data_set_made"  # subject: data set id; all of it is there, the data holds how much
    DATA_SET_REPLACED = "data_set_replaced"  # subject: data set id; another one is ready in its place
    DATA_SET_DELETED_BY_HAND = "data_set_deleted_by_hand"  # subject: data set id; nobody may use it any more
    SCHEDULE_SKIPPED = "schedule_skipped"  # subject: schedule; it was due, the first time of several without a run
    SCHEDULE_CHANGED_BY_HAND = "schedule_changed_by_hand"  # subject: schedule; the data holds what, and what it is now
    INSTANCES_CLEANED = "instances_cleaned"  # subject: "actors"; retention time is over
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
    GROUP_FOUND = "group_found"  # subject: group; errors of a kind that was not there before
    GROUP_REGRESSED = "group_regressed"  # subject: group; it was resolved or archived, and errors come again
    LANE_STUCK = "lane_stuck"  # subject: flow/lane; what is due is not released
    DESK_GROWING = "desk_growing"  # subject: flow; many cases have come in a short time
    NOTIFICATION_SENT = "notification_sent"  # subject: target; the data holds how many notices
    NOTIFICATION_DELAYED = "notification_delayed"  # subject: target; it was not taken, and is tried again
    NOTIFICATION_FAILED = "notification_failed"  # subject: target; it was given up
    USER_CHANGED_BY_HAND = "user_changed_by_hand"  # subject: user; the data holds what, and never a password
    KEY_CHANGED_BY_HAND = "key_changed_by_hand"  # subject: the key's beginning; the data holds what: made or revoked
    BLOCK_CHANGED_BY_HAND = "block_changed_by_hand"  # subject: number of a block rule; what: added or withdrawn
    COMPLAINT_MADE = "complaint_made"  # subject: number of a complaint; the data holds what it is about
    COMPLAINT_CHANGED_BY_HAND = "complaint_changed_by_hand"  # subject: number of a complaint; the data holds what
    CLEANED_BY_HAND = "cleaned_by_hand"  # subject: what was cleaned; the data holds its size before and after
    LOG_IN_REFUSED = "log_in_refused"  # subject: name or address; it has failed too often and has to wait
    CASE_CHANGED_BY_HAND = "case_changed_by_hand"  # subject: case id; the data holds what was done
    CASE_GROUP_CHANGED_BY_HAND = "case_group_changed_by_hand"  # subject: group of cases; the data holds what was done
    DESK_JOB_CHANGED_BY_HAND = "desk_job_changed_by_hand"  # subject: job id; counted, begun, paused, resumed or aborted
    DESK_JOB_ENDED = "desk_job_ended"  # subject: job id; finished or failed, the data holds how many of what
    LANE_RELEASED = "lane_released"  # subject: flow/lane; the data holds how many records; never a row
    LANE_CHANGED_BY_HAND = "lane_changed_by_hand"  # subject: flow/lane; pause, resume, hurry or empty
    POLICIES_CHANGED = "policies_changed"  # subject: flow; another version of its rules counts, the data holds which
    RECORDS_NOT_SENT = "records_not_sent"  # subject: flow; they are in front of a person again, the data holds which
    CASES_TAKEN = "cases_taken"  # subject: flow; the data holds how many are new, failed again, told again; never a row
    CASES_RESOLVED = "cases_resolved"  # subject: flow; the data holds how many; never a row
    CASES_FORGOTTEN = "cases_forgotten"  # subject: "desk"; settled cases whose retention time is over
    ERRORS_MISSED = "errors_missed"  # subject: flow; the data holds the offsets that were deleted before the desk came
    RULES_FOUND = "rules_found"  # subject: flow; learned corrections that wait for a person, the data holds which
    RULE_CHANGED_BY_HAND = "rule_changed_by_hand"  # subject: rule of learned corrections; the data holds its state
    CORRECTIONS_LEARNED = "corrections_learned"  # subject: flow; the data holds how many records and edits; never a row
    GROUP_REHEARSED = "group_rehearsed"  # subject: group of cases; the data holds how many would load; never a row
    TERM_TAKEN = "term_taken"  # subject: process id of the peer that coordinates from now on; the data holds the term
    PACKETS_REFUSED = "packets_refused"  # subject: host that sent them; the data holds the reason; once a minute
    PEER_ROLE_CHANGED = "peer_role_changed"  # subject: peer; the data holds its role and whom it follows; never a row
    DUTY_LAUNCHED = "duty_launched"  # subject: duty; the data holds the launch and where
    DUTY_READY = "duty_ready"  # subject: duty; the data holds the launch and how long it took
    DUTY_DIED = "duty_died"  # subject: duty; the data holds how, and when the next start is due
    DUTY_STOPPED = "duty_stopped"  # subject: duty; its process has ended as was wished
    DUTY_FAILED = "duty_failed"  # subject: duty; it has died too often before it was ready, and is not started again
    DUTY_CHANGED_BY_HAND = "duty_changed_by_hand"  # subject: duty; the data holds what: wanted, stop or restart
    UPLOAD_PASSED = "upload_passed"  # subject: upload; a stage has come to the end of an input, the data holds which
    UPLOAD_CLOSED = "upload_closed"  # subject: upload; its results are complete, the data holds how many rows of each
    UPLOAD_CLOSING_FAILED = "upload_closing_failed"  # subject: upload; tried again, or waits for a person
    UPLOAD_CLOSING_RETRIED = "upload_closing_retried"  # subject: upload; by hand
    UPLOAD_FINISHED = "upload_finished"  # subject: upload; its client has acknowledged all results
    UPLOAD_EXPIRED = "upload_expired"  # subject: upload; by a rule, the data holds it
    UPLOADS_FORGOTTEN = "uploads_forgotten"  # subject: "gateway"; ended uploads whose retention time is over
    UPLOAD_OPENED = "upload_opened"  # subject: upload; the data holds its stream and senders
    SENDER_FINISHED = "sender_finished"  # subject: upload/sender; the data holds bytes, lines and how many were refused
    UPLOAD_RECEIVED = "upload_received"  # subject: upload; all its senders have finished, it is closing
    UPLOAD_ABORTED_BY_HAND = "upload_aborted_by_hand"  # subject: upload; its client or an operator gave it up
    CHUNK_TAKEN = "chunk_taken"  # subject: upload/sender; the data holds bytes, lines and refused ones; never a row
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
    """Hands each event to every subscriber of this process. A subscriber that fails is logged; the others go on."""

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
