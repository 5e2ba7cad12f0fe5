"""A flow at work in this process: all its stages, each in a thread of its own."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from towpath.core.events import Events
from towpath.core.service import Service
from towpath.db import Database
from towpath.db.event_log import EventLog
from towpath.errors import SparkFailed, TowpathError
from towpath.flow.delivery.ledger import Ledger
from towpath.flow.flow import Flow
from towpath.flow.graph.stages import Stage
from towpath.flow.run.context import StageContext
from towpath.flow.run.outage import OutageDetector
from towpath.flow.run.sampler import Sampler
from towpath.flow.run.stage_run import StageRun
from towpath.flow.stage import StageMachine, StageState
from towpath.flow.stage.controller import StageController
from towpath.flow.stage.store import StageStore, claim_stage
from towpath.log.log import Log
from towpath.settings import Settings
from towpath.spark.java import how_java_ended

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


logger = logging.getLogger(__name__)

JOIN_S = 0.2
LEAVE_S = 5.0  # what stages get to end without Java, and Java itself when it answers no more


@dataclass(frozen=True, slots=True)
class FlowContext:
    """What a flow needs of the runtime."""

    settings: Settings
    database: Database
    events: Events
    event_log: EventLog
    log: Log
    open_spark: Callable[[], SparkSession]
    owner: str  # this process's id


@dataclass(frozen=True, slots=True)
class StageView:
    """A stage as it is at this moment, for a display."""

    stage: str
    machine: StageMachine
    sample: dict[str, Any]


@dataclass(slots=True)
class _Running:
    context: StageContext
    controller: StageController
    sampler: Sampler
    run: StageRun
    thread: threading.Thread | None = None
    error: BaseException | None = None
    until_idle: bool = False
    is_over: bool = False

    def work(self, others: Sequence[_Running]) -> None:
        try:
            self.run.run(until_idle=self.until_idle, others_work=lambda: any(each.works for each in others))
        except BaseException as error:
            self.error = error
            logger.error("stage %s ended: %s", self.context.name, error, exc_info=error)
        finally:
            self.is_over = True

    @property
    def works(self) -> bool:
        """Whether its process has something to do for it, also while it is paused: not when a person is needed."""
        return not self.is_over and self.controller.state is not StageState.HALTED


@dataclass(slots=True)
class FlowRun:
    """Takes the stages of a flow, runs them until they rest, and lets go of them."""

    parts: FlowContext
    flow: Flow
    beside: Sequence[Service] = ()  # what else runs while the flow does
    _running: list[_Running] = field(default_factory=list)
    _session: SparkSession | None = None
    _is_asked_to_stop: bool = False

    def start(self, *, until_idle: bool = False) -> None:
        """Take every stage and start it; `NotTheOnlyOne` when another living process has one of them."""
        stages = self.flow.stages()
        self._session = self.parts.open_spark()
        try:
            for stage in stages:
                self._running.append(self._take(stage))
        except BaseException:
            self._release()
            raise
        for running in self._running:
            running.until_idle = until_idle
            others = [other for other in self._running if other is not running]
            running.thread = threading.Thread(
                target=running.work,
                args=(others,),
                name=f"stage-{running.context.name}",
                daemon=True,
            )
            running.thread.start()
        for service in self.beside:
            service.start()

    def _take(self, stage: Stage) -> _Running:
        parts, flow = self.parts, self.flow
        stages = StageStore(parts.database)
        with parts.database.transaction() as tx:
            stages.ensure(tx, flow.name, stage.name, stage.topology(), flow.version)
        row = claim_stage(parts.database, stages, flow.name, stage.name, parts.owner)
        context = StageContext(
            parts.settings,
            parts.database,
            parts.events,
            parts.event_log,
            parts.log,
            parts.open_spark,
            flow,
            stage,
            parts.owner,
            row,
            stages,
            Ledger(parts.database, parts.owner),
        )
        controller = StageController(
            parts.database,
            stages,
            parts.events,
            parts.event_log,
            parts.settings.flow,
            flow.name,
            stage.name,
            parts.owner,
            row.machine,
        )
        sampler = Sampler(context)
        detector = OutageDetector.from_value(row.judge, parts.settings.flow)
        return _Running(context, controller, sampler, StageRun(context, controller, detector, sampler))

    @property
    def is_running(self) -> bool:
        return any(running.thread is not None and running.thread.is_alive() for running in self._running)

    def views(self) -> list[StageView]:
        return [
            StageView(running.context.stage.name, running.controller.machine, running.sampler.latest)
            for running in self._running
        ]

    def stop(self, reason: str = "asked to") -> None:
        """Let every stage end after its present batch."""
        self._is_asked_to_stop = True
        for running in self._running:
            running.run.stop(reason)

    def wait(self, tick: Callable[[], None] = lambda: None) -> dict[str, StageState]:
        """Wait until all stages rest, and say in which states; raises what ended a stage by itself.

        `SparkFailed` when Spark's Java process is gone: nothing can be done any more in this process.
        """
        while self.is_running:
            self._check_java()
            for running in self._running:
                if running.thread is not None:
                    running.thread.join(JOIN_S)
            if any(running.error is not None for running in self._running):
                self.stop("another stage ended")
            tick()
        try:
            self._end_beside()
        finally:
            self._release()
        for running in self._running:
            if running.error is not None:
                self._check_java(running.error)  # what a stage ends with then tells nobody anything
                raise running.error
        return {running.context.stage.name: running.controller.state for running in self._running}

    def _end_beside(self) -> None:
        """Stop what runs beside the stages. A run that is to end when all is done also does what is left for them."""
        for service in self.beside:
            service.stop()
        ends_by_itself = not self._is_asked_to_stop and all(running.until_idle for running in self._running)
        while ends_by_itself and sum(service.run_once().done for service in self.beside) > 0:
            pass  # what one has done may give another something to do

    def _check_java(self, error: BaseException | None = None) -> None:
        """`SparkFailed` when it is gone; `error` is what a stage has ended with."""
        from py4j.protocol import Py4JNetworkError

        is_cut_off = isinstance(error, ConnectionError | Py4JNetworkError)
        how = None if self._session is None else how_java_ended(self._session, LEAVE_S if is_cut_off else 0.0)
        if how is None:
            return
        self.stop("Spark's Java process is gone")
        deadline = time.monotonic() + LEAVE_S
        for running in self._running:
            if running.thread is not None:
                running.thread.join(max(0.0, deadline - time.monotonic()))
        for service in self.beside:
            with contextlib.suppress(TowpathError):
                service.stop(max(0.0, deadline - time.monotonic()))
        raise SparkFailed(f"Spark's Java process {how}; start the flow again, it goes on where it was")

    def _release(self) -> None:
        for running in self._running:
            context, machine = running.context, running.controller.machine
            if running.error is None and machine.is_resting:
                with context.database.transaction() as tx:
                    context.stages.release(tx, context.row.flow, context.row.name, context.owner, machine)
