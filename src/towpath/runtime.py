"""The only place that makes parts and connects them: from settings to a running Towpath."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from towpath import settings as settings_module
from towpath.access.access import Access
from towpath.access.blocks import Blocks
from towpath.actors.actors import Actors
from towpath.catalog.data_set_janitor import DataSetJanitor
from towpath.catalog.data_sets import DataSets
from towpath.clock import Clock, SystemClock
from towpath.db import Transaction, open_database
from towpath.db.event_log import EventLog
from towpath.db.processes import Heartbeat, Identity, Process, leave_at_once, record_start, record_stop
from towpath.errors import DatabaseError, TowpathError
from towpath.events import Event, Events
from towpath.log import Log, open_log
from towpath.log.janitor import LogJanitor
from towpath.log.open import KAFKA_PREFIX
from towpath.log.sqlite_log import SqliteLog
from towpath.logs import log_event
from towpath.notify.notify import Notify
from towpath.queue import Queue
from towpath.service import Service
from towpath.settings import Settings
from towpath.supervision.enrolment import enrol
from towpath.supervision.given_launch import given_launch
from towpath.supervision.host import this_host

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from towpath.boundary.gateway import Gateway
    from towpath.boundary.outlet import Outlet
    from towpath.catalog.complaints import Complaints
    from towpath.desk.corrections.corrections import Corrections
    from towpath.desk.desk import Desk
    from towpath.desk.desk_part import DeskPart
    from towpath.desk.desk_services import DeskServices
    from towpath.desk.lane_desk import LaneDesk
    from towpath.desk.policy_desk import PolicyDesk
    from towpath.desk.rehearsal import Rehearsal
    from towpath.desk.rehearsals import Rehearsals
    from towpath.flow.flow import Flow
    from towpath.flow.flow_run import FlowRun
    from towpath.supervision.duty_desk import DutyDesk
    from towpath.supervision.hands import Hands
    from towpath.supervision.opening import Opening
    from towpath.supervision.steward import Steward
    from towpath.supervision.supervisor import Supervisor
    from towpath.supervision.udp import UdpSocket

logger = logging.getLogger(__name__)

NO_PEER = 0  # the number under which who is no peer coordinates


class Runtime:
    """One process's Towpath: its database, its queue and, once it claims something, its process row."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock | None = None,
        on_dead: Callable[[], None] = leave_at_once,
        *,
        kind: str = "",
        pinged_at: str | None = None,
    ) -> None:
        """`kind` is what this process does, as others see it; `pinged_at` is where it answers pings by itself."""
        self.settings = settings
        self._kind = kind
        self._pinged_at = pinged_at
        self.events = Events()
        self.events.subscribe(log_event)
        self._clock = clock or SystemClock()
        self._on_dead = on_dead
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._process: Process | None = None
        self._log: Log | None = None
        self._desk: Desk | None = None
        self._corrections: Corrections | None = None
        self._gateway: Gateway | None = None
        self._outlet: Outlet | None = None
        self._is_closed = False
        self._services: list[Service] = []
        self._closed_with_it: list[Callable[[], None]] = []
        self.database = open_database(settings.database)
        self.event_log = EventLog(self.database, self.events)
        self.queue = Queue(self.database, settings.queue, self.events, self.event_log, self.process)
        self.actors = Actors(settings, self.queue)
        self.data_sets = DataSets(self.database, self.event_log)
        self.notify = Notify(self.database, settings.notify, self.queue, self.events, self.event_log)
        self.access = Access(self.database, settings.access, self.events, self.event_log, lambda: self.process().id)
        self.blocks = Blocks(self.database, self.event_log, self._clock)
        if given_launch() is not None:
            self._enrol_or_close()

    @property
    def log(self) -> Log:
        """The topics, opened when first asked for; on SQLite with the janitor that deletes what is past its time."""
        self._check_pid()
        with self._lock:
            if self._log is None:
                self._check_open()
                self._log = open_log(self.settings.log, self.database)
                if isinstance(self._log, SqliteLog):
                    self._start(LogJanitor(self._log, self.events, self._record_expiry))
            return self._log

    def log_janitor(self) -> LogJanitor | None:
        """Deletes records past their time; None: a broker does that by itself."""
        log = self.log
        return LogJanitor(log, self.events, self._record_expiry) if isinstance(log, SqliteLog) else None

    @property
    def desk(self) -> Desk:
        """What people do about errors, made when first asked for: most processes have no use for it."""
        with self._lock:
            if self._desk is None:
                from towpath.desk.corrections.correct_act import correct_maker
                from towpath.desk.desk import Desk  # loads Arrow
                from towpath.desk.job_state import JobKind

                makers = {JobKind.CORRECT: correct_maker(self.settings.desk, self.database, self._blob)}
                self._desk = Desk(self.settings, self.database, self.event_log, self.actors, lambda: self.log, makers)
            return self._desk

    @property
    def gateway(self) -> Gateway:
        """What clients send, made when first asked for, with what looks after senders that do not come back."""
        with self._lock:
            if self._gateway is None:
                from towpath.boundary.caretaker import GatewayCaretaker
                from towpath.boundary.opening import open_gateway  # loads Arrow

                common = (self.settings, self.database, self.events, self.event_log)
                self._gateway = open_gateway(*common, lambda: self.log, self._clock, self.blocks)
                self._closed_with_it.append(self._gateway.close)
                self._start(GatewayCaretaker(self._gateway, self.settings.gateway, self.events))
            return self._gateway

    @property
    def complaints(self) -> Complaints:
        """What readers say about documents."""
        from towpath.catalog.complaints import Complaints  # loads Arrow

        common = (self.database, self.settings.complaints, self.events, self.event_log)
        return Complaints(*common, self.blocks, lambda: self.log)

    @property
    def outlet(self) -> Outlet:
        """Results for clients, and what they have of them; made when first asked for."""
        with self._lock:
            if self._outlet is None:
                from towpath.boundary.upload_opening import open_outlet

                self._outlet = open_outlet(self.settings, self.database, self.event_log)
            return self._outlet

    def upload_services(self) -> list[Service]:
        """What uploads need beside the gateway, ready to be started in this process."""
        from towpath.boundary.upload_opening import open_upload_services

        common = (self.settings, self.database, self.events, self.event_log)
        return open_upload_services(*common, lambda: self.log, clock=self._clock)

    @property
    def policies(self) -> PolicyDesk:
        """What is done about the errors of flows."""
        from towpath.desk.policy_desk import PolicyDesk

        return PolicyDesk(self.database, self.event_log, self._blob)

    @property
    def lanes(self) -> LaneDesk:
        """Where records wait that are to be tried again."""
        from towpath.desk.lane_desk import LaneDesk

        return LaneDesk(self.database, self.event_log)

    def desk_services(self, only: Collection[DeskPart] | None = None) -> DeskServices:
        """What the desk does by itself, all of it or some parts, ready to be started in this process."""
        from towpath.desk.bulk_janitor import BulkJanitor
        from towpath.desk.corrections.mender import LearnedMender
        from towpath.desk.desk_part import DeskPart
        from towpath.desk.desk_services import DeskServices
        from towpath.desk.opening import open_case_janitor, open_intake
        from towpath.desk.rehearsals import Rehearser
        from towpath.desk.relay import Relay
        from towpath.desk.replayer import Replayer
        from towpath.desk.sending_parts import SendingParts
        from towpath.desk.upkeep import DeskUpkeep
        from towpath.desk.watch import DeskWatch

        told, desk = self.notify.notices, self.settings.desk
        common = (self.settings, self.database)
        sending = SendingParts.of(*common, self.events, self.event_log, self.log, self.process, self._blob)

        def intake() -> list[Service]:
            mender = LearnedMender(self.database)
            return [open_intake(*common, lambda: self.log, self.events, self.event_log, told, mender)]

        def jobs() -> list[Service]:
            self.actors.register(self.desk.jobs.actor(), Rehearser)
            return [self.actors.host()]

        def janitors() -> list[Service]:
            return [
                open_case_janitor(*common, self.events, self.event_log),
                BulkJanitor(self.database, desk, self.events),
                DeskUpkeep(self.database, desk, self.events),
            ]

        make: dict[DeskPart, Callable[[], Sequence[Service]]] = {
            DeskPart.INTAKE: intake,
            DeskPart.RELAY: lambda: [Relay(sending)],
            DeskPart.REPLAYER: lambda: [Replayer(sending)],
            DeskPart.JOBS: jobs,
            DeskPart.NOTICES: lambda: [
                DeskWatch(self.database, told, self.settings.notify, self.events),
                *self.notify.services(),
            ],
            DeskPart.JANITOR: janitors,
        }
        return DeskServices(self.database, {part: make[part]() for part in make if only is None or part in only})

    @property
    def corrections(self) -> Corrections:
        """What was learned about the records of flows, and what may be mended by it: kept in memory once it is read."""
        with self._lock:
            if self._corrections is None:
                from towpath.desk.corrections.corrections import Corrections

                parts = (self.database, self.events, self.event_log, lambda: self.log, self.spark, self._blob)
                self._corrections = Corrections(*parts)
            return self._corrections

    @property
    def rehearsal(self) -> Rehearsal:
        """What would become of cases if they were replayed now."""
        from towpath.desk.rehearsal import Rehearsal

        return Rehearsal(self.settings, self.database, self.events, self.spark, self._blob)

    @property
    def rehearsals(self) -> Rehearsals:
        """The same where no Spark is: asked for here, carried out where the desk runs."""
        from towpath.desk.rehearsals import Rehearsals

        return Rehearsals(self.database, self.settings.desk, self.queue, self.actors, self.event_log)

    def _blob(self, name: str) -> bytes:
        from towpath.desk.opening import blobs_of

        return blobs_of(self.settings).read(name)

    def spark(self, name: str = "towpath") -> SparkSession:
        """The Spark session of this process, started when first asked for, that can read this runtime's topics."""
        from towpath.boundary.collected_frame import told_root
        from towpath.boundary.result_files import uploads_root
        from towpath.spark.session import build_session  # loads pyspark and Java

        session = build_session(self.settings.spark, name, connector=self.settings.log.url.startswith(KAFKA_PREFIX))
        return told_root(session, uploads_root(self.settings))

    def flow(self, flow: Flow) -> FlowRun:
        """A flow, ready to be started in this process."""
        from towpath.boundary.result_files import with_absolute_root
        from towpath.boundary.upload_opening import open_flow_services
        from towpath.desk.replays import UploadReplays
        from towpath.flow.flow_run import FlowRun, Parts  # loads pyspark
        from towpath.flow.topics import FlowTopics

        settings = with_absolute_root(self.settings)
        common = (settings, self.database, self.events, self.event_log)
        replays = UploadReplays(self.database, lambda: self.log)
        under_way = replays.are_under_way
        beside = open_flow_services(*common, lambda: self.log, self.spark, flow, under_way, clock=self._clock)
        parts = Parts(*common, self.log, self.spark, self.process().id)
        error_topic = None if flow.error_topic == FlowTopics.of(flow.name).errors else flow.error_topic
        self.policies.declare(flow.name, error_topic, flow.rules)
        return FlowRun(parts, flow, beside)

    @property
    def duties(self) -> DutyDesk:
        """What has to run, and what people wish of it."""
        from towpath.supervision.duty_desk import DutyDesk

        return DutyDesk(self.database, self.event_log, this_host(self.settings.supervision), self._hands)

    def supervisor(self, number: int, udp: UdpSocket) -> Supervisor:
        """A peer, ready to be started in this process; it speaks through that socket."""
        from towpath.supervision.opening import open_supervisor

        launch = self.process().identity.launch or 0
        return open_supervisor(self._supervision_parts(number), number, udp, launch, self._clock)

    def steward(self) -> Steward:
        """Who coordinates while there is no peer."""
        from towpath.supervision.opening import open_steward

        return open_steward(self._supervision_parts(NO_PEER), self._clock)

    def _supervision_parts(self, number: int) -> Opening:
        from towpath.supervision.opening import Opening

        return Opening(
            self.settings,
            self.database,
            self.events,
            self.event_log,
            self.queue,
            self.notify.notices,
            self._hands(),
            self.process().id,
            number,
        )

    def _hands(self) -> Hands:
        from towpath.supervision.hands import Hands
        from towpath.supervision.opening import open_launchers

        return Hands(self.database, open_launchers(self.settings.supervision))

    def process(self) -> Process:
        """This process as others see it, registered when first asked for, with the services that keep it alive."""
        self._check_pid()
        with self._lock:
            if self._process is None:
                self._check_open()
                process, check, responders = self._registered()
                with self.database.transaction() as tx:
                    record_start(self.event_log, tx, process)
                self._process = process
                self._start(
                    *responders,
                    Heartbeat(process, self.events, self._on_dead, check),
                    self.queue.caretaker(),
                    self.queue.janitor(),
                    DataSetJanitor(self.data_sets, self.settings.catalog, self.events),
                )
            return self._process

    def _registered(self) -> tuple[Process, Callable[[], None] | None, list[Service]]:
        """The process with its row, what it does at each beat, and what answers pings for it."""
        given = given_launch()
        if given is None:
            identity = Identity(self._kind, ping_address=self._pinged_at)
            process = Process(self.database, self.settings.process, self._clock, identity)
            process.register()
            return process, None, []
        common = (self.settings, self.database, self.events, self.event_log, self._clock)
        enrolled = enrol(*common, given, self._kind, self._pinged_at)
        self._closed_with_it.append(enrolled.close)
        return enrolled.process, enrolled.fence.check, enrolled.services

    def _enrol_or_close(self) -> None:
        """Who was started for a duty shows itself before it does anything."""
        try:
            self.process()
        except BaseException:
            self.close()
            raise

    def _start(self, *services: Service) -> None:
        for service in services:
            self._services.append(service)
            service.start()

    def _record_expiry(self, tx: Transaction, event: Event) -> None:
        """With the records' own change where they are in the same database; otherwise after it."""
        if tx.writes_to(self.database):
            self.event_log.record(tx, event)
        else:
            tx.after_commit(lambda: self._record(event))

    def _record(self, event: Event) -> None:
        with self.database.transaction() as tx:
            self.event_log.record(tx, event)

    def _check_pid(self) -> None:
        if self._pid != os.getpid():
            raise TowpathError("this runtime was opened before a fork; call towpath.connect() in the child")

    def _check_open(self) -> None:
        if self._is_closed:
            raise TowpathError("this runtime was closed; connect again")

    def close(self) -> None:
        """Stop actors and services and close the database. Inboxes that were started are the caller's to stop first."""
        if self._pid != os.getpid():
            return  # a forked child: all this is its parent's
        with self._lock:
            self._is_closed = True
        with contextlib.ExitStack() as ending:  # the last one is called first, and each even if another raises
            ending.callback(self._leave)
            for close in self._closed_with_it:
                ending.callback(close)
            for service in self._services:
                ending.callback(service.stop)
            ending.callback(self.actors.close)

    def _leave(self) -> None:
        if self._process is not None:
            with contextlib.suppress(DatabaseError):
                self._process.stop()
                with self.database.transaction() as tx:
                    record_stop(self.event_log, tx, self._process)
            self._process = None
        self._services = []
        try:
            if self._log is not None:
                self._log.close()
        finally:
            self.database.close()

    def __enter__(self) -> Runtime:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def connect(url: str | None = None, *, config: Path | None = None, **overrides: dict[str, Any]) -> Runtime:
    """Open Towpath with the settings of this directory, or with the database at `url`.

    `overrides` are sections of settings, as in `connect(process={"lease_s": 30})`.
    """
    flags: dict[str, Any] = dict(overrides)
    if url is not None:
        flags["database"] = {**flags.get("database", {}), "url": url}
    return Runtime(settings_module.load(flags, config))
