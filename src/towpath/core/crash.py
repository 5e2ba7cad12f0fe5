"""Named places where a process may die, so that tests can make it die there.

`here(point)` does nothing unless `TOWPATH_CRASH=point:n` is set: then the n-th pass (1 without `:n`) through that
point ends the process with SIGKILL, as a power cut would. Points that a Python worker of Spark passes end the driver
and the worker. It fires once. Recovery tests walk the whole enum.
"""

from __future__ import annotations

import os
import signal
import tempfile
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from uuid import uuid4

from towpath.errors import BadSettings

VARIABLE = "TOWPATH_CRASH"


class CrashPoint(StrEnum):
    """Between every two acts that a crash could separate."""

    SEND_BEFORE_COMMIT = "send_before_commit"
    SEND_AFTER_COMMIT = "send_after_commit"  # written, but nobody has been woken
    CLAIM_BEFORE_COMMIT = "claim_before_commit"
    CLAIM_AFTER_COMMIT = "claim_after_commit"  # claimed, but the handler has not seen it
    HANDLER_DONE = "handler_done"  # handled, but the queue does not know
    FINISH_BEFORE_COMMIT = "finish_before_commit"  # state moved and answer written, both uncommitted
    FINISH_AFTER_COMMIT = "finish_after_commit"  # finished, but the asker has not been woken
    EXCHANGE_BEFORE_COMMIT = "exchange_before_commit"  # one finished and the next claimed, both uncommitted
    EXCHANGE_AFTER_COMMIT = "exchange_after_commit"  # the next is claimed, but its handler has not seen it
    RELEASE_BEFORE_COMMIT = "release_before_commit"
    RELEASE_AFTER_COMMIT = "release_after_commit"
    DEATH_MARKED = "death_marked"  # an owner is marked dead, but its claims are still its own
    FREE_BEFORE_COMMIT = "free_before_commit"
    FREE_AFTER_COMMIT = "free_after_commit"
    REAP_BEFORE_COMMIT = "reap_before_commit"
    REAP_AFTER_COMMIT = "reap_after_commit"
    CLEAN_BEFORE_COMMIT = "clean_before_commit"
    CLEAN_AFTER_COMMIT = "clean_after_commit"
    OPERATE_BEFORE_COMMIT = "operate_before_commit"  # a person's change and its event, both uncommitted
    OPERATE_AFTER_COMMIT = "operate_after_commit"
    INTAKE_BEFORE_COMMIT = "intake_before_commit"  # starts are let in or refused and answers noted, uncommitted
    INTAKE_AFTER_COMMIT = "intake_after_commit"
    ACTORS_CLAIM_BEFORE_COMMIT = "actors_claim_before_commit"
    ACTORS_CLAIM_AFTER_COMMIT = "actors_claim_after_commit"  # an instance is this process's, its code has not begun
    TURN_BEGUN = "turn_begun"  # the code of a state is about to run
    TURN_DONE = "turn_done"  # it has run, the queue does not know
    TURN_BEFORE_COMMIT = "turn_before_commit"  # what it sends, the next state and its own end, uncommitted
    TURN_AFTER_COMMIT = "turn_after_commit"  # committed; the next state may be claimed already, its code has not begun
    REVIVE_BEFORE_COMMIT = "revive_before_commit"  # what a dead process had is moved on, uncommitted
    REVIVE_AFTER_COMMIT = "revive_after_commit"
    DATA_SET_DELETE_BEFORE_COMMIT = "data_set_delete_before_commit"  # nobody may use it any more, uncommitted
    DATA_SET_DELETE_AFTER_COMMIT = "data_set_delete_after_commit"  # committed, all of it is still there
    DATA_SET_REMOVED = "data_set_removed"  # nothing of it is left, its row does not say so yet
    SCHEDULE_BEFORE_COMMIT = "schedule_before_commit"  # a start and the schedule's next time, both uncommitted
    SCHEDULE_AFTER_COMMIT = "schedule_after_commit"  # the start is sent, nobody has been woken
    FORGET_BEFORE_COMMIT = "forget_before_commit"  # instances and their inboxes are deleted, uncommitted
    FORGET_AFTER_COMMIT = "forget_after_commit"
    TOPIC_BEFORE_COMMIT = "topic_before_commit"  # a topic is made or deleted, uncommitted
    TOPIC_AFTER_COMMIT = "topic_after_commit"  # of a deleted topic: gone for everybody, its records still take room
    APPEND_BEFORE_COMMIT = "append_before_commit"  # records handed over outside a transaction, nothing promised yet
    APPEND_AFTER_COMMIT = "append_after_commit"  # written, but the caller does not know
    PRODUCER_OPENED = "producer_opened"  # the older one of the name is fenced, nothing has been written
    LOG_TRANSACTION_FILLED = "log_transaction_filled"  # records handed over, positions not, uncommitted
    LOG_TRANSACTION_BEFORE_COMMIT = "log_transaction_before_commit"  # records and positions, uncommitted
    LOG_TRANSACTION_AFTER_COMMIT = "log_transaction_after_commit"  # committed, but the caller does not know
    MARKS_READ = "marks_read"  # a unit's producer is open, and it is known which parts are there; nothing is written
    START_MOVED = "start_moved"  # records are gone for every reader, but still take room
    GENERATION_FENCED = "generation_fenced"  # who opens a producer for the old generation gives up; open ones still can
    GENERATION_BEGUN = "generation_begun"  # a new checkpoint is in the stage's row, its directory is not made
    BATCH_FIXED = "batch_fixed"  # Spark knows what the batch reads, the ledger does not
    BATCH_SNAPSHOT = "batch_snapshot"  # its row is in the ledger, nothing has run
    DECISION_MADE = "decision_made"  # what becomes of each record is written, but it does not count yet
    DECISION_STORED = "decision_stored"  # it counts, the ledger does not know
    BATCH_DECIDED = "batch_decided"  # the ledger knows, no output has anything
    WENT_AHEAD = "went_ahead"  # at most once: it will not be tried again, no output has anything
    REFUSING_SINKS_DONE = "refusing_sinks_done"  # in a worker: those that may refuse have their part, others nothing
    BATCH_LOADED = "batch_loaded"  # sinks have what they took, what failed is in the reports only
    OUTCOME_STORED = "outcome_stored"  # the reports count, nobody has been told
    ERRORS_SENT = "errors_sent"  # what failed is in the error topic, the batch is not committed
    BATCH_COMMITTED = "batch_committed"  # the ledger says so, Spark does not know
    TABLE_STAGED = "table_staged"  # in a worker: a unit's rows are beside their tables (PostgreSQL), not in them
    TABLE_BEFORE_COMMIT = "table_before_commit"  # in a worker: rows and their mark, uncommitted
    TABLE_AFTER_COMMIT = "table_after_commit"  # in a worker: rows and their mark are in, nobody has been told
    FILES_COMPLETE = "files_complete"  # in a worker: a unit's files are on the disk, under hidden names
    FILE_PUBLISHED = "file_published"  # in a worker: one more file has its name; a power cut may undo that
    FILES_SYNCED = "files_synced"  # in a worker: files are there for good, nobody has been told
    BULK_SENT = "bulk_sent"  # in a worker: a request to an index was answered, nobody has looked at the answer
    INDEX_DONE = "index_done"  # in a worker: every request of a unit was answered, nobody has been told
    REQUEST_TAKEN = "request_taken"  # an idempotency key is taken, nothing has been done
    REQUEST_MADE = "request_made"  # the change is committed and its request says so, the answer is not kept yet
    REQUEST_ANSWERED = "request_answered"  # the answer is kept, nobody has got it
    NOTICES_BEFORE_COMMIT = "notices_before_commit"  # notices are handed to the queue for each target, uncommitted
    NOTICES_AFTER_COMMIT = "notices_after_commit"
    NOTIFICATION_DELIVERED = "notification_delivered"  # a webhook or mail server has it, the queue does not know
    JOB_FILL_BEFORE_COMMIT = "job_fill_before_commit"  # some cases of a bulk job are written down, uncommitted
    JOB_FILL_AFTER_COMMIT = "job_fill_after_commit"
    JOB_WORK_BEFORE_COMMIT = "job_work_before_commit"  # cases moved, sends and outcomes of items, all uncommitted
    JOB_WORK_AFTER_COMMIT = "job_work_after_commit"  # committed, the actor does not know
    JOB_ENDED = "job_ended"  # every item has its outcome and the job says so, its actor has not ended
    RELAY_OPENED = "relay_opened"  # its producer is open, it is known how far an older one came, nothing is deleted
    RELAY_REFUSED = "relay_refused"  # what cannot be sent is in front of a person, the rest has not been sent
    RELAY_SENT = "relay_sent"  # rows of the outbox are in their topics, the outbox does not know
    RELAY_BEFORE_COMMIT = "relay_before_commit"  # they are deleted, uncommitted
    RELAY_AFTER_COMMIT = "relay_after_commit"
    LANE_CLAIMED = "lane_claimed"  # a lane is this process's, its producer is not open
    LANE_OPENED = "lane_opened"  # its producer is open, nothing has been read
    LANE_BEFORE_COMMIT = "lane_before_commit"  # cases of due records move and the release is planned, uncommitted
    LANE_AFTER_COMMIT = "lane_after_commit"  # cases say that they are replayed, nothing has been sent
    LANE_RELEASED = "lane_released"  # due records are in the re-entry topic, nobody has been told
    DESK_BODIES_KEPT = "desk_bodies_kept"  # large bodies are files, no case names them
    DESK_ERRORS_BEFORE_COMMIT = "desk_errors_before_commit"  # cases, attempts, sends and the position, all uncommitted
    DESK_ERRORS_AFTER_COMMIT = "desk_errors_after_commit"  # committed, nobody has been told
    DESK_OUTCOMES_BEFORE_COMMIT = "desk_outcomes_before_commit"  # cases resolved and the position moved, uncommitted
    DESK_OUTCOMES_AFTER_COMMIT = "desk_outcomes_after_commit"
    DESK_FORGET_BEFORE_COMMIT = "desk_forget_before_commit"  # settled cases are deleted and added up, uncommitted
    DESK_FORGET_AFTER_COMMIT = "desk_forget_after_commit"  # committed, files of their bodies are still there
    LEARN_BEFORE_COMMIT = "learn_before_commit"  # counts of records and how far they were counted, uncommitted
    LEARN_AFTER_COMMIT = "learn_after_commit"
    LEARN_EDITS_BEFORE_COMMIT = "learn_edits_before_commit"  # counts of operators' edits and their marks, uncommitted
    LEARN_EDITS_AFTER_COMMIT = "learn_edits_after_commit"
    JUDGE_BEFORE_COMMIT = "judge_before_commit"  # verdicts over corrections and the rules' tallies, uncommitted
    JUDGE_AFTER_COMMIT = "judge_after_commit"
    TERM_BEFORE_COMMIT = "term_before_commit"  # a new term is taken, uncommitted
    TERM_AFTER_COMMIT = "term_after_commit"  # it is this peer's, which has done nothing under it
    LAUNCH_BEFORE_COMMIT = "launch_before_commit"  # a start is taken, uncommitted
    LAUNCH_AFTER_COMMIT = "launch_after_commit"  # a start is taken, its launcher has not been told
    LAUNCH_STARTED = "launch_started"  # its launcher has started it, its row has no handle
    LAUNCH_NOTED = "launch_noted"  # its row has the handle, nobody has been told
    LAUNCH_ADOPTED = "launch_adopted"  # in the process: its launch is its own, it has done nothing
    DUTY_KILLED = "duty_killed"  # a silent process is ended by force, its death is not written down
    DEATH_BEFORE_COMMIT = "death_before_commit"  # a death and the next start's time, uncommitted
    DEATH_AFTER_COMMIT = "death_after_commit"  # written down; the dead one's claims are still its own
    DEATH_FREED = "death_freed"  # they are free, the record of the death does not say so
    DUTY_STOP_BEFORE_COMMIT = "duty_stop_before_commit"  # a process is to be told to end, uncommitted
    DUTY_STOP_AFTER_COMMIT = "duty_stop_after_commit"  # committed, nobody has told it
    UPLOAD_PASS_BEFORE_COMMIT = "upload_pass_before_commit"  # stages have come to the end of an upload
    UPLOAD_PASS_AFTER_COMMIT = "upload_pass_after_commit"  # that is committed, nobody has closed it
    CLOSING_WRITTEN = "closing_written"  # the rows of a closing step are on the disk, under a hidden name
    CLOSING_RENAMED = "closing_renamed"  # they have their name, so they count; no row says so
    UPLOAD_CLOSE_BEFORE_COMMIT = "upload_close_before_commit"  # results complete and upload sending, uncommitted
    UPLOAD_CLOSE_AFTER_COMMIT = "upload_close_after_commit"
    RESULT_ACKNOWLEDGE_BEFORE_COMMIT = "result_acknowledge_before_commit"  # perhaps the last one, uncommitted
    RESULT_ACKNOWLEDGE_AFTER_COMMIT = "result_acknowledge_after_commit"  # of the last one: finished, with its files
    UPLOAD_FILES_REMOVED = "upload_files_removed"  # of an upload that has ended
    CLIENT_STATE_WRITTEN = "client_state_written"  # a client's state has the id of an upload, which is not opened
    CLIENT_OPENED = "client_opened"  # the upload is open, the client's state does not say so
    CLIENT_CHUNK_ACKNOWLEDGED = "client_chunk_acknowledged"  # the server has a chunk, and has said so
    CLIENT_FINISHED = "client_finished"  # the server knows that a sender is at its end, the client's state does not
    CLIENT_FILE_SYNCED = "client_file_synced"  # rows are in a client's file for good, its state does not know
    CLIENT_RECEIVED = "client_received"  # its state knows, the server does not
    CLIENT_ACKNOWLEDGED = "client_acknowledged"  # the server may forget the rows, the state does not know
    DUTY_END_BEFORE_COMMIT = "duty_end_before_commit"  # it has ended as it was told, uncommitted
    DUTY_END_AFTER_COMMIT = "duty_end_after_commit"
    LAUNCHER_DIRECTORY_MADE = "launcher_directory_made"  # a launch has its directory, nobody knows what it is to run
    LAUNCHER_HOME_MADE = "launcher_home_made"  # what it is to run is written down, nobody runs it
    LAUNCHER_KEEPER_SPAWNED = "launcher_keeper_spawned"  # its keeper is on its way, nobody knows how far
    LAUNCHER_STARTED = "launcher_started"  # it runs, who asked for it has not been told
    KEEPER_BEFORE_BEGUN = "keeper_before_begun"  # there is a keeper, the launch is not marked as begun
    KEEPER_BEGUN = "keeper_begun"  # it is marked as begun, there is no process
    KEEPER_STARTED = "keeper_started"  # the process runs, its number is not noted
    KEEPER_NOTED = "keeper_noted"  # its number is noted, who waits for it has not been told
    KEEPER_BEFORE_END = "keeper_before_end"  # it has ended and all of it is gone, how is not written down
    KEEPER_AFTER_END = "keeper_after_end"  # how it ended is written down
    SETTLE_BEGUN = "settle_begun"  # a launch without a keeper can begin no more, what is left of it runs on
    CONTAINER_CREATED = "container_created"  # the container of a launch is made, nobody has begun to start it
    CONTAINER_BEGUN = "container_begun"  # one may start it and nobody else, it is not started
    CONTAINER_STARTED = "container_started"  # it runs, who asked for it has not been told
    UPLOAD_OPEN_BEFORE_COMMIT = "upload_open_before_commit"  # an upload and its senders, uncommitted
    UPLOAD_OPENED = "upload_opened"  # committed, its client has not been told
    SESSION_RAISED = "session_raised"  # older connections of a sender count no more, its client has not been told
    SENDER_OPENED = "sender_opened"  # its producer is open, what an older one left under way is not decided
    CHUNK_PLAN_BEFORE_COMMIT = "chunk_plan_before_commit"  # what is about to go into the log, uncommitted
    CHUNK_PLANNED = "chunk_planned"  # committed, nothing has gone
    CHUNK_SENT = "chunk_sent"  # the lines are in the log, the sender's row does not know
    CHUNK_SETTLE_BEFORE_COMMIT = "chunk_settle_before_commit"  # the plan is what is, or is given up; uncommitted
    CHUNK_SETTLED = "chunk_settled"  # committed, its client has not been told
    SENDER_FINISH_BEFORE_COMMIT = "sender_finish_before_commit"  # its end, perhaps that of its upload; uncommitted
    SENDER_FINISHED = "sender_finished"  # committed, its client has not been told
    MIGRATE_BEFORE_COMMIT = "migrate_before_commit"
    MIGRATE_AFTER_COMMIT = "migrate_after_commit"


class Crashed(BaseException):
    """Stands for the death of the process, where a test wants its Spark session to live on."""


class Armed:
    """One point to die at, and how many passes are left. It goes to workers too, and ends the driver from there."""

    def __init__(self, setting: str, *, once: Path, victim: int) -> None:
        name, _, count = setting.partition(":")
        try:
            self.point = CrashPoint(name)
            self.left = int(count or 1)
            if self.left < 1:
                raise ValueError(f"there is no pass number {self.left}")
        except ValueError as error:
            known = ", ".join(CrashPoint)
            raise BadSettings(f"{VARIABLE}={setting!r} is not point:n with one of: {known}") from error
        self.once = once  # is made when it fires: it fires in one process, once
        self.victim = victim  # the driver's process; 0: it lives on, and is told by `Crashed`
        self._driver = os.getpid()

    def passed(self, point: CrashPoint) -> None:
        if point is self.point:
            self.left -= 1
            if self.left == 0 and (self.victim == os.getpid() or self._is_first()):
                self._fire()

    @property
    def has_fired(self) -> bool:
        return self.once.exists()

    def _is_first(self) -> bool:
        try:
            self.once.touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def _fire(self) -> None:
        if self.victim:
            with suppress(ProcessLookupError):
                os.kill(self.victim, signal.SIGKILL)
        elif os.getpid() == self._driver:
            raise Crashed(self.point)
        os.kill(os.getpid(), signal.SIGKILL)


def from_environment() -> Armed | None:
    """The crash point that the environment of this process names, if any."""
    setting = os.environ.get(VARIABLE)
    if not setting:
        return None
    return Armed(setting, once=Path(tempfile.gettempdir(), f"towpath-crash-{uuid4().hex}"), victim=os.getpid())


# Read once at start: an unarmed process pays one comparison for each point it passes.
_armed = from_environment()


def is_armed() -> bool:
    """Whether this process was told to die somewhere."""
    return _armed is not None


def armed() -> Armed | None:
    """What this process was armed with, to be passed on to its workers."""
    return _armed


def arm(told: Armed | None) -> None:
    """Arm this process from a test, or disarm it."""
    global _armed
    _armed = told


def arm_worker(told: Armed | None) -> None:
    """Arm a worker as its driver is armed. A worker that was armed before for the same crash is left as it is."""
    global _armed
    if _armed is None or told is None or _armed.once != told.once:
        _armed = told


def check() -> None:
    """After a failure, on the driver: raise `Crashed` when it was the armed death of a worker."""
    if _armed is not None and not _armed.victim and _armed.has_fired:
        raise Crashed(_armed.point)


def here(point: CrashPoint) -> None:
    """Die here if this point is armed."""
    if _armed is not None:
        _armed.passed(point)
