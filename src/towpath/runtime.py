"""The composition root, from settings to a running Towpath: parts are made and connected here and nowhere else."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from towpath.access.service import AccessService
from towpath.actors.service import Actors
from towpath.blocks.service import BlockService
from towpath.catalog.data_sets.service import DataSetJanitor, DataSets
from towpath.core.clock import Clock, SystemClock
from towpath.core.events import Event, Events
from towpath.core.logs import log_event
from towpath.core.service import Service
from towpath.db import Transaction, open_database
from towpath.db.event_log import EventLog
from towpath.db.processes import Heartbeat, Identity, Process, leave_at_once, record_start, record_stop
from towpath.errors import DatabaseError, TowpathError
from towpath.log import Log, open_log
from towpath.log.open import KAFKA_PREFIX
from towpath.log.sqlite.log import LogJanitor, SqliteLog
from towpath.notify.service import NotifyService
from towpath.queue import Queue
from towpath.settings import Settings, load
from towpath.supervision.duties.launch import enrol, given_launch
from towpath.supervision.peers.socket import this_host

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from towpath.catalog.complaints.service import Complaints
    from towpath.desk.background import DeskPart, DeskServices
    from towpath.desk.corrections.service import CorrectionService
    from towpath.desk.desk import Desk
    from towpath.desk.policies.service import PolicyService
    from towpath.desk.rehearsal import Rehearsal
    from towpath.desk.rehearsal_queue import RehearsalService
    from towpath.desk.replay.lane_service import LaneService
    from towpath.flow.flow import Flow
    from towpath.flow.run.flow_run import FlowRun
    from towpath.gateway.outlet.service import Outlet
    from towpath.gateway.service import Gateway
    from towpath.supervision.duties.process_control import ProcessControl
    from towpath.supervision.peers.socket import UdpSocket
    from towpath.supervision.service import DutyService
    from towpath.supervision.supervisor import SupervisionContext, Supervisor
    from towpath.supervision.up import Steward


logger = logging.getLogger(__name__)

NO_PEER = 0  # the number under which a process that is no peer coordinates


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
        """`kind` is what others see this process do; `pinged_at` is where it answers pings, if it does so itself."""
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
        self._corrections: CorrectionService | None = None
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
        self.notify = NotifyService(self.database, settings.notify, self.queue, self.events, self.event_log)
        self.access = AccessService(
            self.database, settings.access, self.events, self.event_log, lambda: self.process().id
        )
        self.blocks = BlockService(self.database, self.event_log, self._clock)
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
                if (janitor := self.log_janitor()) is not None:
                    self._start(janitor)
            return self._log

    def log_janitor(self) -> LogJanitor | None:
        """Deletes records past their retention; None where a broker does that by itself."""
        log = self.log
        return LogJanitor(log, self.events, self._record_expiry) if isinstance(log, SqliteLog) else None

    @property
    def desk(self) -> Desk:
        """What people do about errors, made when first asked for: most processes have no use for it."""
        with self._lock:
            if self._desk is None:
                from towpath.desk.actions.actions import JobKind
                from towpath.desk.corrections.act import correct_maker
                from towpath.desk.desk import Desk  # loads Arrow

                makers = {JobKind.CORRECT: correct_maker(self.settings.desk, self.database, self._blob)}
                self._desk = Desk(self.settings, self.database, self.event_log, self.actors, lambda: self.log, makers)
            return self._desk

    @property
    def gateway(self) -> Gateway:
        """What clients send, made when first asked for, with the caretaker of senders that do not come back."""
        with self._lock:
            if self._gateway is None:
                from towpath.gateway.factory import open_gateway  # loads Arrow
                from towpath.gateway.janitor import GatewayCaretaker

                common = (self.settings, self.database, self.events, self.event_log)
                self._gateway = open_gateway(*common, lambda: self.log, self._clock, self.blocks)
                self._closed_with_it.append(self._gateway.close)
                self._start(GatewayCaretaker(self._gateway, self.settings.gateway, self.events))
            return self._gateway

    @property
    def complaints(self) -> Complaints:
        """What readers say about documents."""
        from towpath.catalog.complaints.service import Complaints  # loads Arrow

        common = (self.database, self.settings.complaints, self.events, self.event_log)
        return Complaints(*common, self.blocks, lambda: self.log)

    @property
    def outlet(self) -> Outlet:
        """Results for clients, and which they have received; made when first asked for."""
        with self._lock:
            if self._outlet is None:
                from towpath.gateway.factory import open_outlet

                self._outlet = open_outlet(self.settings, self.database, self.event_log)
            return self._outlet

    def upload_services(self) -> list[Service]:
        """What uploads need beside the gateway, ready to be started in this process."""
        from towpath.gateway.factory import open_upload_services

        common = (self.settings, self.database, self.events, self.event_log)
        return open_upload_services(*common, lambda: self.log, clock=self._clock)

    @property
    def policies(self) -> PolicyService:
        """What is done about the errors of flows."""
        from towpath.desk.policies.service import PolicyService

        return PolicyService(self.database, self.event_log, self._blob)

    @property
    def lanes(self) -> LaneService:
        """Where records wait that are to be tried again."""
        from towpath.desk.replay.lane_service import LaneService

        return LaneService(self.database, self.event_log)

    def desk_services(self, only: Collection[DeskPart] | None = None) -> DeskServices:
        """What the desk does by itself, all of it or some parts, ready to be started in this process."""
        from towpath.desk.background import DeskPart, DeskServices, DeskWatch, open_case_janitor, open_intake
        from towpath.desk.corrections.act import LearnedAutoEditor
        from towpath.desk.janitor import BulkJanitor, DeskUpkeep
        from towpath.desk.rehearsal_queue import Rehearser
        from towpath.desk.replay.outbox import ReplayContext
        from towpath.desk.replay.relay import Relay
        from towpath.desk.replay.replayer import Replayer

        notices, desk = self.notify.notices, self.settings.desk
        common = (self.settings, self.database)
        replay = ReplayContext(
            *common, self.events, self.event_log, log=self.log, process=self.process, blob=self._blob
        )

        def intake() -> list[Service]:
            auto_editor = LearnedAutoEditor(self.database)
            return [open_intake(*common, lambda: self.log, self.events, self.event_log, notices, auto_editor)]

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
            DeskPart.RELAY: lambda: [Relay(replay)],
            DeskPart.REPLAYER: lambda: [Replayer(replay)],
            DeskPart.JOBS: jobs,
            DeskPart.NOTICES: lambda: [
                DeskWatch(self.database, notices, self.settings.notify, self.events),
                *self.notify.services(),
            ],
            DeskPart.JANITOR: janitors,
        }
        return DeskServices(self.database, {part: make[part]() for part in make if only is None or part in only})

    @property
    def corrections(self) -> CorrectionService:
        """Learned corrections of records, and what they may change: kept in memory once they are read."""
        with self._lock:
            if self._corrections is None:
                from towpath.desk.corrections.service import CorrectionService

                common = (self.database, self.events, self.event_log)
                self._corrections = CorrectionService(*common, lambda: self.log, self.spark, self._blob)
            return self._corrections

    @property
    def rehearsal(self) -> Rehearsal:
        """What would become of cases if they were replayed now, tried in this process with Spark."""
        from towpath.desk.rehearsal import Rehearsal

        return Rehearsal(self.settings, self.database, self.events, self.spark, self._blob)

    @property
    def rehearsals(self) -> RehearsalService:
        """The same without Spark: requested here, carried out where the desk runs."""
        from towpath.desk.rehearsal_queue import RehearsalService

        return RehearsalService(self.database, self.settings.desk, self.queue, self.actors, self.event_log)

    def _blob(self, name: str) -> bytes:
        from towpath.desk.cases.blobs import blobs_of

        return blobs_of(self.settings).read(name)

    def spark(self, name: str = "towpath") -> SparkSession:
        """The Spark session of this process, started when first asked for, that can read this runtime's topics."""
        from towpath.gateway.outlet.sinks import told_root
        from towpath.gateway.outlet.store import uploads_root
        from towpath.spark.session import build_session  # loads pyspark and Java

        session = build_session(self.settings.spark, name, connector=self.settings.log.url.startswith(KAFKA_PREFIX))
        return told_root(session, uploads_root(self.settings))

    def flow(self, flow: Flow) -> FlowRun:
        """A flow, ready to be started in this process."""
        from towpath.desk.record_queries import UploadReplays
        from towpath.flow.run.flow_run import FlowContext, FlowRun  # loads pyspark
        from towpath.flow.topics import FlowTopics
        from towpath.gateway.factory import open_flow_services
        from towpath.gateway.outlet.store import with_absolute_root

        settings = with_absolute_root(self.settings)
        common = (settings, self.database, self.events, self.event_log)
        under_way = UploadReplays(self.database, lambda: self.log).are_under_way
        services = open_flow_services(*common, lambda: self.log, self.spark, flow, under_way, clock=self._clock)
        context = FlowContext(*common, self.log, self.spark, self.process().id)
        error_topic = None if flow.error_topic == FlowTopics.of(flow.name).errors else flow.error_topic
        self.policies.declare(flow.name, error_topic, flow.rules)
        return FlowRun(context, flow, services)

    @property
    def duties(self) -> DutyService:
        """What has to run, and what people have asked of it."""
        from towpath.supervision.service import DutyService

        return DutyService(self.database, self.event_log, this_host(self.settings.supervision), self._process_control)

    def supervisor(self, number: int, udp: UdpSocket) -> Supervisor:
        """A peer, ready to be started in this process; it talks to the others through that socket."""
        from towpath.supervision.supervisor import open_supervisor

        launch = self.process().identity.launch or 0
        return open_supervisor(self._supervision_context(number), udp, launch, self._clock)

    def steward(self) -> Steward:
        """Coordinates while there is no peer."""
        from towpath.supervision.supervisor import open_steward

        return open_steward(self._supervision_context(NO_PEER), self._clock)

    def _supervision_context(self, number: int) -> SupervisionContext:
        from towpath.supervision.supervisor import SupervisionContext

        return SupervisionContext(
            self.settings,
            self.database,
            self.events,
            self.event_log,
            self.queue,
            self.notify.notices,
            self._process_control(),
            self.process().id,
            number,
        )

    def _process_control(self) -> ProcessControl:
        from towpath.supervision.duties.process_control import ProcessControl
        from towpath.supervision.supervisor import open_launchers

        return ProcessControl(self.database, open_launchers(self.settings.supervision))

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
        """A process that was started for a duty registers before it does anything else."""
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
    return Runtime(load(flags, config))
