"""Drives one stage: configures it, runs its Spark query, and does what its state machine says about every error.

There is one way to try again: the query ends, the stage waits, a new query starts from the same checkpoint and Spark
gives it the same batch. So nothing ever waits inside Spark's callback (`BatchCall`), and a stage can be stopped at any
time.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from towpath.core.events import Event, EventKind
from towpath.errors import BadFlow, BadSettings, BadValue, FlowHalted, NotTheOnlyOne
from towpath.flow.run.batch import BatchRun
from towpath.flow.run.configuration import StageConfiguration, check_reset
from towpath.flow.run.context import StageContext
from towpath.flow.run.outage import Outage, OutageDetector, Probe
from towpath.flow.run.poison_search import BatchGivenUp
from towpath.flow.run.sampler import Sampler
from towpath.flow.run.timers import StageTimer
from towpath.flow.stage import StageState, StageTrouble
from towpath.flow.stage.classifier import classify
from towpath.flow.stage.controller import StageController
from towpath.flow.stage.states import StageCommand, StageCommandKind
from towpath.flow.stateful.operators import check_state, with_state
from towpath.flow.worker.breadcrumb import forget_trail, trail_of
from towpath.log.spark.source import read_stream

logger = logging.getLogger(__name__)

LOOK_S = 0.1
WISH_S = 0.5
IDLE_LOOKS = 2

# What no waiting mends: the flow file, the settings or the ledger need a person.
FOR_A_PERSON = (BadFlow, BadSettings, FlowHalted)


class StageRun:
    """One stage from its start to its rest."""

    def __init__(
        self, context: StageContext, controller: StageController, detector: OutageDetector, sampler: Sampler
    ) -> None:
        self._context = context
        self._controller = controller
        self._detector = detector
        self._sampler = sampler
        self._timer = StageTimer(context)
        self._nonce = secrets.token_hex(8)
        self._stop = threading.Event()
        self._query: StreamingQuery | None = None
        self._call: BatchCall | None = None  # by that query
        self._batch_error: BaseException | None = None
        self._excluded: dict[int, Any] = {}  # by batch: what an earlier attempt has found to be at fault
        self._outage: Outage | None = None
        self._suspect: Probe | None = None
        self._asked_at = 0.0
        self._reason = "stopped"
        self._stopping: StageCommand | None = None  # a person's, to end it
        self._pausing: StageCommand | None = None
        self._in_batch = False
        self._begins_none = False

    def stop(self, reason: str = "asked to") -> None:
        """End after the present batch. Safe from any thread."""
        self._reason = reason
        self._stop.set()

    def run(self, *, until_idle: bool = False, others_work: Callable[[], bool] = lambda: False) -> StageState:
        """Run until it comes to rest, and return in which state. Halted, it listens as long as other stages work."""
        self._controller.start()
        if self._controller.state is StageState.HALTED:
            self._listen()  # somebody may have said resume since
        try:
            while not self._is_over(others_work):
                if (self._stop.is_set() or self._pausing) and self._is_between_batches():
                    self._rest()
                else:
                    self._turn(until_idle)
        finally:
            self._end_query()
            self._context.close()
        self._sampler.finish()
        return self._controller.state

    def _is_over(self, others_work: Callable[[], bool]) -> bool:
        """Whether nothing is left to do here. A pause and a halt outlive the process, unless a person said stop."""
        is_ended = self._stop.is_set() and self._stopping is None
        match self._controller.state:
            case StageState.STOPPED:
                return True
            case StageState.PAUSED:
                return is_ended
            case StageState.HALTED:
                return is_ended or (self._stopping is None and not others_work())
        return False

    def _is_between_batches(self) -> bool:
        """Whether no batch runs. From now on none begins: to end a query in the middle of one would undo its work."""
        self._begins_none = True
        return not self._in_batch

    def _rest(self) -> None:
        self._end_query()
        if self._stop.is_set():
            if (
                self._stopping is None
                and (wish := self._context.wish()) is not None
                and wish.kind is StageCommandKind.STOP
            ):
                self._stopping = wish  # asked for a moment ago: it is done now
            self._controller.rest(StageState.STOPPED, self._reason, self._stopping)
        elif self._pausing is not None:
            if self._controller.state is StageState.HALTED:
                self._controller.settle(self._pausing)  # it rests, and needs a person
            else:
                self._controller.rest(StageState.PAUSED, _told(self._pausing), self._pausing)
        self._pausing = None

    def _turn(self, until_idle: bool) -> None:
        """One look at the state: do its work, or wait."""
        try:
            self._listen()
            match self._controller.state:
                case StageState.CONFIGURE:
                    self._end_query()
                    StageConfiguration(self._context, self._controller).run()
                case StageState.RESET:
                    StageConfiguration(self._context, self._controller).reset()
                case StageState.RETRY:
                    self._wait(self._controller.resume)
                case StageState.HELD:
                    self._wait(self._probe)
                case StageState.PAUSED | StageState.HALTED:
                    self._stop.wait(LOOK_S)
                case _:
                    self._flow(until_idle)
        except NotTheOnlyOne:
            raise
        except BatchGivenUp:
            self._end_query()
        except FOR_A_PERSON as error:
            self._end_query()
            self._controller.rest(StageState.HALTED, str(error))
        except Exception as error:
            self._end_query()
            self._fail(error)

    def _wait(self, go_on: Callable[[], None]) -> None:
        if self._controller.is_due():
            go_on()
        else:
            self._stop.wait(LOOK_S)

    def _probe(self) -> None:
        """Try one of the records that failed; go on when it passes."""
        if self._suspect is not None and self._suspect.fails_still():
            assert self._outage is not None  # noqa: S101 - a suspect comes with its outage
            self._controller.hold(_trouble(self._outage))
            return
        if self._outage is not None:
            self._detector.cleared(self._outage.where)
        self._outage = self._suspect = None
        self._controller.resume()

    # A running query

    def _flow(self, until_idle: bool) -> None:
        if self._query is None:
            self._query = self._start_query()
        self._watch(self._query)
        self._timer.look()
        self._sampler.sample()
        self._controller.write()
        is_idle = self._sampler.idle_looks >= IDLE_LOOKS and not self._timer.has_due
        if until_idle and is_idle and self._controller.state is StageState.EXTRACT:
            self.stop("nothing more to read")

    def _watch(self, query: StreamingQuery) -> None:
        """Look for a moment whether the query has ended, and raise why: what a batch raised, or what Spark did."""
        try:
            if not query.awaitTermination(LOOK_S):  # type: ignore[arg-type]  # parts of a second work as well
                return
        except StreamingQueryException as error:
            raise self._batch_error or error from None
        self._end_query()

    def _start_query(self) -> StreamingQuery:
        context = self._context
        # Raises where a topic was made again: Spark would go on in it at the old offset, or find no news.
        context.kept()
        starting = {(each.topic, each.partition): each.start for each in context.row.starting}
        records = read_stream(
            context.spark, context.log, context.input_topics, starting, context.settings.flow.max_batch_records
        )
        check_state(context.flow.name, context.stage, context.checkpoint)
        forget_trail(context.checkpoint.directory)
        trail = str(trail_of(context.checkpoint.directory))
        records = with_state(records, context.stage, context.topics.reentry, context.max_record_bytes, trail)
        self._call = BatchCall(self._on_batch)
        writer = (
            records.writeStream.queryName(f"{context.name}#{context.row.generation}")
            .option("checkpointLocation", str(context.checkpoint.spark))
            .trigger(processingTime=f"{round(context.settings.flow.trigger_s * 1000)} milliseconds")
            .foreachBatch(self._call)
        )
        return writer.start()

    def _on_batch(self, records: DataFrame, batch_id: int) -> None:
        """Called by Spark, in a thread of its own. What goes wrong is kept: Spark would make a text of it."""
        self._in_batch = True
        try:
            if self._begins_none:
                raise BatchGivenUp
            self._run_batch(records, batch_id)
        except BaseException as error:
            self._batch_error = error
            raise
        finally:
            self._in_batch = False

    def _run_batch(self, records: DataFrame, batch_id: int) -> None:
        excluded = self._excluded.setdefault(batch_id, {})
        parts = (self._context, self._controller, self._detector, batch_id, records, self._nonce)
        run = BatchRun(*parts, excluded=excluded, is_ending=lambda: self._begins_none)
        outcome = run.run()
        self._excluded.clear()
        if outcome is None:
            # The commit was done, and its answer lost; or the process was killed between the ledger's and Spark's.
            self._sampler.forget()
            self._timer.forget()
            if self._controller.state is not StageState.EXTRACT:
                self._controller.reach(StageState.ERRORS)
                self._controller.move(StageState.EXTRACT)
        else:
            self._controller.move(StageState.EXTRACT)
            self._timer.passed(run.batch.positions.stops)
            self._sampler.add(run.batch, outcome)
            data = {"batch_id": batch_id, "took_s": run.took_s, **outcome.to_counts()}
            self._context.events.publish(Event(EventKind.BATCH_COMMITTED, self._context.name, data=data))

    def _end_query(self) -> None:
        query, self._query = self._query, None
        self._begins_none = True  # Spark waits for a batch that is at work: a search in it ends now
        if query is not None and query.isActive:
            query.stop()
        if self._call is not None:
            self._call.let_go()
        self._batch_error = self._call = None
        self._begins_none = False

    # Errors and wishes

    def _fail(self, error: Exception) -> None:
        if isinstance(error, Outage):
            self._outage, self._suspect = error, error.probe
            self._controller.hold(_trouble(error))
            return
        found = classify(error, self._controller.state, self._nonce)
        logger.debug("%s: %s", self._context.name, found.message, exc_info=error)
        if self._controller.state is StageState.RETRY or self._controller.machine.is_resting:
            # No work has failed, but the waiting itself: it goes on.
            logger.warning(
                "%s is %s and goes on waiting: %s", self._context.name, self._controller.state, found.message
            )
            self._stop.wait(LOOK_S)
        elif found.needs_person:
            self._controller.rest(StageState.HALTED, found.message)
        else:
            self._controller.fail(StageTrouble(found.code, found.step, found.message))

    def _listen(self) -> None:
        if time.monotonic() - self._asked_at < WISH_S:
            return
        self._asked_at = time.monotonic()
        if (wish := self._context.wish()) is None:
            return
        try:
            self._grant(wish)
        except (NotTheOnlyOne, *FOR_A_PERSON):
            raise
        except Exception as error:
            # It is no work of the present state that has failed. The wish is still there at the next look.
            logger.warning("%s: %s cannot be done yet (%s): %s", self._context.name, wish.kind, wish.who, error)

    def _grant(self, wish: StageCommand) -> None:
        match wish.kind:
            case StageCommandKind.STOP:
                self._stopping = wish
                self.stop(_told(wish))
            case StageCommandKind.PAUSE:
                self._pausing = wish
            case StageCommandKind.RESUME:
                self._pausing = None
                if self._controller.machine.is_resting or self._controller.machine.is_waiting:
                    self._controller.resume(wish)
                else:
                    self._controller.settle(wish)  # it went on by itself meanwhile
            case StageCommandKind.RESET:
                self._pausing = None
                self._reset(wish)

    def _reset(self, wish: StageCommand) -> None:
        try:
            check_reset(wish.arguments)
        except BadValue as error:
            logger.warning("%s: the reset that %s asked for is not possible: %s", self._context.name, wish.who, error)
            self._controller.settle(wish)
            return
        self._end_query()
        self._excluded.clear()
        StageConfiguration(self._context, self._controller).reset_to(wish)


def _told(wish: StageCommand) -> str:
    return f"{wish.who}: {wish.why}"


def _trouble(outage: Outage) -> StageTrouble:
    return StageTrouble(outage.code, outage.where, str(outage))


class BatchCall:
    """Calls a function until it is let go.

    Python keeps this one as long as Java keeps the query. Whatever it leads to, also by the trace of what it has
    raised, may lead back to the query, which Java keeps as long as Python does: neither would ever forget it, and a
    flow that tries for a night would fill both.
    """

    def __init__(self, function: Callable[[DataFrame, int], None]) -> None:
        self._function: Callable[[DataFrame, int], None] | None = function
        self._raised: RuntimeError | None = None

    def __call__(self, records: DataFrame, batch_id: int) -> None:
        try:
            if self._function is None:
                raise RuntimeError("its query was ended")
            self._function(records, batch_id)
        except BaseException as error:  # Spark hears of exceptions only, and would make a text of them anyway
            self._raised = RuntimeError(repr(error))
        if self._raised is not None:
            raise self._raised

    def let_go(self) -> None:
        """The query has ended."""
        self._function = None
        if self._raised is not None:
            self._raised.__traceback__ = None
