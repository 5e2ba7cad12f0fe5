"""What the desk does by itself: intake, relay, replayer, bulk jobs, notices and upkeep, as services of one process.

A process may run all parts or some, and any number of processes may run them: intakes share the work by positions,
relays and lanes by claims, jobs as actors do. `DeskWatch` reports stuck lanes and flows that fill the desk; new and
regressed groups are reported by the intake, which finds them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from towpath.core.clock import MICROS
from towpath.core.events import Events
from towpath.core.service import RoundResult, Service
from towpath.db import Database, Queries, Transaction
from towpath.db.event_log import EventLog
from towpath.desk.cases.blobs import blobs_of
from towpath.desk.groups.store import GroupStore
from towpath.desk.intake.decision import GroupAssigner
from towpath.desk.intake.ingest import Bodies, ErrorIngest
from towpath.desk.intake.service import DeskIntake, OutcomeIngest
from towpath.desk.janitor import CaseJanitor
from towpath.desk.policies.rules import AutoEditor
from towpath.errors import TowpathError
from towpath.log.log import Log
from towpath.notify.model import Notice, NoticeKind, Teller
from towpath.settings import NotifySettings, Settings

QUIET_ROUNDS = 2  # in a row, before it counts as idle
IDLE_S = 0.1

WATCH_S = 10.0


class DeskPart(StrEnum):
    """What the desk does by itself, part by part."""

    INTAKE = "intake"  # errors become cases
    RELAY = "relay"  # what was decided is sent
    REPLAYER = "replayer"  # lanes release what is due
    JOBS = "jobs"  # bulk jobs and rehearsals
    NOTICES = "notices"  # webhooks and e-mails, and what they are about
    JANITOR = "janitor"  # what is past its time is deleted


PULLING = (DeskPart.INTAKE, DeskPart.RELAY, DeskPart.REPLAYER)  # in the order of a record's way


class DeskServices:
    """The services of one process. `pulling` move records, in the order of a record's way; `around` are all others."""

    def __init__(self, database: Database, parts: Mapping[DeskPart, Sequence[Service]]) -> None:
        self._database = database
        self._sql = Queries("towpath.desk", "background", database.dialect)
        self.pulling = tuple(service for part in PULLING for service in parts.get(part, ()))
        self.around = tuple(service for part in parts if part not in PULLING for service in parts[part])

    @property
    def all(self) -> tuple[Service, ...]:
        return (*self.pulling, *self.around)

    def start(self) -> None:
        for service in self.all:
            service.start()

    def stop(self, grace_s: float) -> list[str]:
        """End all of them at once; returns the names of those that have not ended within the grace period."""
        deadline = time.monotonic() + grace_s
        left: list[str] = []

        def stop(service: Service) -> None:
            try:
                service.stop(max(0.1, deadline - time.monotonic()))
            except TowpathError:
                left.append(service.name)

        threads = [threading.Thread(target=stop, args=(each,), daemon=True) for each in self.all]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return left

    def run_until_idle(self, is_over: Callable[[], bool], tick: Callable[[], None] = lambda: None) -> None:
        """Take in, send and release until there is nothing to do now, or it is to be over. What is not due is left."""
        for service in self.around:
            service.start()
        quiet = 0
        while quiet < QUIET_ROUNDS and not is_over():
            done = sum(service.run_once().done for service in self.pulling)
            is_busy = done > 0 or self.status().jobs > 0
            quiet = 0 if is_busy else quiet + 1
            tick()
            if not done:
                time.sleep(IDLE_S)
        for service in self.pulling:
            service.on_stop()

    def status(self) -> DeskStatus:
        """How the desk is now."""
        with self._database.read() as tx:
            cases = {state: int(count) for state, count in tx.rows(self._sql["states"], {}) if count}
            [[to_send]] = tx.rows(self._sql["to_send"], {})
            [[due_at]] = tx.rows(self._sql["next_due"], {})
            [[jobs]] = tx.rows(self._sql["jobs_at_work"], {})
        due_s = None if due_at is None else (due_at - self._database.now()) / MICROS
        return DeskStatus(cases, to_send, due_s, jobs)


@dataclass(frozen=True, slots=True)
class DeskStatus:
    """The desk in a few numbers."""

    cases: dict[str, int]  # by state
    to_send: int
    next_due_s: float | None  # until the first of what waits is due
    jobs: int

    def to_json(self) -> dict[str, Any]:
        due = None if self.next_due_s is None else round(self.next_due_s, 3)
        return {"cases": self.cases, "to_send": self.to_send, "next_due_s": due, "jobs": self.jobs}


def open_intake(
    settings: Settings,
    database: Database,
    log: Callable[[], Log],
    events: Events,
    event_log: EventLog,
    teller: Teller,
    editor: AutoEditor | None = None,
) -> DeskIntake:
    """The intake of all flows."""
    flows = Path(settings.flow.directory).absolute()
    bodies = Bodies(blobs_of(settings), lambda flow: flows / flow / "blobs", settings.desk.large_body_bytes)
    errors = ErrorIngest(database, bodies, GroupAssigner(GroupStore(database), teller), editor)
    outcomes = OutcomeIngest(database)
    return DeskIntake(database, log, errors, outcomes, events, settings.desk.intake_s, event_log.record)


def open_case_janitor(settings: Settings, database: Database, events: Events, event_log: EventLog) -> CaseJanitor:
    """What deletes cases whose time is over."""
    return CaseJanitor(database, blobs_of(settings), settings.desk, events, event_log.record)


class DeskWatch(Service):
    """Notices stuck lanes and flows that fill the desk. Two at once send the same notice, which counts once."""

    name = "desk watch"

    def __init__(self, database: Database, teller: Teller, settings: NotifySettings, events: Events) -> None:
        super().__init__(events)
        self._database = database
        self._teller = teller
        self._settings = settings
        self._sql = Queries("towpath.desk", "watch", database.dialect)

    def run_once(self) -> RoundResult:
        return RoundResult(self.look(), min(WATCH_S, self._settings.lane_stuck_s, self._settings.growing_s))

    def look(self) -> int:
        """Tell what is found now; returns how much that is."""
        with self._database.read() as tx:
            found = [*self._stuck(tx), *self._growing(tx)]
        if found:
            with self._database.transaction() as tx:
                for notice in found:
                    self._teller.tell(tx, notice)
        return len(found)

    def _stuck(self, tx: Transaction) -> Iterator[Notice]:
        now_us, least_s = self._database.now(), self._settings.lane_stuck_s
        for flow, partition, due_us in tx.rows(self._sql["first_due"], {}):
            late_s = 0.0 if due_us is None else (now_us - due_us) / MICROS
            if late_s >= least_s:
                title = f"lane {partition} of {flow} is stuck: what was due {late_s:.0f} s ago is not released"
                data = {"flow": flow, "lane": partition, "late_s": round(late_s)}
                yield Notice(NoticeKind.LANE_STUCK, f"{flow}/{partition}", title, data)

    def _growing(self, tx: Transaction) -> Iterator[Notice]:
        cases, within_s = self._settings.growing_cases, self._settings.growing_s
        since_us = self._database.now() - int(within_s * MICROS)
        for (flow,) in tx.rows(self._sql["flows"], {}):
            rows = tx.rows(self._sql["taken_before_last"], {"flow": flow, "skip": cases - 1})
            if rows and rows[0][0] >= since_us:
                title = f"{flow} fills the desk: {cases:,} or more cases were opened within {within_s:.0f} s"
                yield Notice(NoticeKind.DESK_GROWING, flow, title, {"flow": flow, "cases": cases})
