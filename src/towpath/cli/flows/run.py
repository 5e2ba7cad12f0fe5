"""`towpath run`: a flow in this process, until it is stopped."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.context import FAILED, CliContext
from towpath.cli.flows.changes import Target
from towpath.cli.options import AsJson, ProcessName
from towpath.cli.progress import SignalHandler
from towpath.errors import DatabaseError, NotTheOnlyOne

if TYPE_CHECKING:
    from towpath.cli.flows.screen import RunTally, Screen
    from towpath.flow.flow import Flow, FlowFile
    from towpath.flow.run.flow_run import FlowRun
    from towpath.flow.stage import StageMachine
    from towpath.runtime import Runtime
    from towpath.settings import Settings


WORKERS_PATH = "spark.executorEnv.PYTHONPATH"
LOOK_S = 0.2
SILENT_BEATS = 2


def run(
    ctx: typer.Context,
    target: Target,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="End when all that is there is read, and nothing is due.")
    ] = False,
    name: ProcessName = None,
    metrics: Annotated[
        int | None,
        typer.Option(min=0, max=65535, metavar="PORT", help="Serve Prometheus metrics on 127.0.0.1; 0: any free port."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a flow. Ctrl-C ends it after its present batch; typed again, at once."""
    from towpath.cli.flows.screen import RunTally, print_end, print_end_json
    from towpath.flow.flow import find_flow
    from towpath.flow.stage import StageState

    given = ctx.ensure_object(CliContext)
    found = find_flow(target)
    found.flow.stages()  # a graph that is wrong is told before anything starts
    tally = RunTally(found.flow.name)
    with _runtime(given, name, found) as runtime:
        if until_idle:
            _check_topics(runtime, found.flow)
        machines = run_flow(runtime, found.flow, until_idle, tally, metrics)
    if as_json:
        print_end_json(found.flow, machines, tally)
    else:
        print_end(found.flow, machines, tally, given)
    if any(machine.state is StageState.HALTED for machine in machines.values()):
        raise typer.Exit(FAILED)


def with_workers_path(settings: Settings, found: FlowFile) -> Settings:
    """The settings with which Spark's workers find the user's modules, here or on other machines."""
    from towpath.spark.cluster import is_local

    path, spark = found.take_along(), settings.spark
    if is_local(spark.master):
        return settings
    spark = spark.model_copy(update={"conf": {WORKERS_PATH: path, **spark.conf}})
    return settings.model_copy(update={"spark": spark})


def run_flow(
    runtime: Runtime, flow: Flow, until_idle: bool, tally: RunTally, metrics: int | None = None
) -> dict[str, StageMachine]:
    """Start Spark, run the flow until all stages rest, and return how each ended."""
    from towpath.cli.flows.screen import open_screen, start_spark

    screen = open_screen(flow.name)
    runtime.events.subscribe(tally)
    runtime.events.subscribe(screen.on_event)
    started: list[FlowRun] = []
    try:
        with SignalHandler(runtime.process().stop, runtime.settings.process.grace_s) as stopping:
            if metrics is not None:
                _serve_metrics(runtime, flow, metrics, started, screen)
            start_spark(runtime, f"towpath {flow.name}", screen)
            running = _started(runtime, flow, until_idle, screen)
            started.append(running)
            stopping.of(running)
            runtime.process().ready(f"runs {flow.name}")
            screen.note(f"runs as process {runtime.process().id}; Ctrl-C ends it after the present batch")
            running.wait(_Tick(runtime, running, tally, screen, stopping))
        return {view.stage: view.machine for view in running.views()}
    finally:
        screen.close()


@contextmanager
def _runtime(given: CliContext, name: str | None, found: FlowFile) -> Iterator[Runtime]:
    """The runtime of a flow's process: it creates its database, and Spark's workers find the user's modules."""
    from towpath.runtime import Runtime

    with Runtime(with_workers_path(given.working_settings(name), found), kind="flow") as runtime:
        yield runtime


def _check_topics(runtime: Runtime, flow: Flow) -> None:
    """Raise an error for a missing topic: a flow waits for it, so that a run until idle would never end."""
    for stage in flow.stages():
        for topic in stage.topics:
            runtime.log.topic(topic)


def _serve_metrics(runtime: Runtime, flow: Flow, port: int, started: list[FlowRun], screen: Screen) -> None:
    """Serve metrics from before the flow starts, so that they miss nothing."""
    from towpath.flow.run.metrics import FlowMetrics

    metrics = FlowMetrics(flow.name, lambda: [view for run in started for view in run.views()])
    runtime.events.subscribe(metrics.on_event)
    screen.say(f"metrics: http://127.0.0.1:{metrics.serve(port)}/metrics")


class _Tick:
    """Shows and reports the state of the stages; called again and again while the flow runs."""

    def __init__(
        self, runtime: Runtime, run: FlowRun, tally: RunTally, screen: Screen, stopping: SignalHandler
    ) -> None:
        self._runtime = runtime
        self._run = run
        self._tally = tally
        self._screen = screen
        self._stopping = stopping
        self._now = runtime.database.now()

    def __call__(self) -> None:
        from towpath.cli.flows.views import StageLine
        from towpath.flow.delivery.places import counts_of

        if self._stopping.news():
            self._screen.note("stopping after this batch; again to leave at once")
        with contextlib.suppress(DatabaseError):  # the stages say themselves that it is away
            self._now = self._runtime.database.now()
        views = self._run.views()
        shown = [StageLine(v.stage, v.machine, v.sample, counts_of(self._tally.of(v.stage))) for v in views]
        states = {view.stage: view.machine.state.value for view in views}
        self._runtime.process().report(", ".join(f"{stage}: {state}" for stage, state in states.items()), states)
        self._screen.stages(shown, self._now)


def _started(runtime: Runtime, flow: Flow, until_idle: bool, screen: Screen) -> FlowRun:
    """Claim the stages and start them. A process that was just killed holds them until its lease ends."""
    while True:
        running = runtime.flow(flow)
        try:
            running.start(until_idle=until_idle)
            return running
        except NotTheOnlyOne as error:
            _wait_for_death(runtime, flow, screen, error)


def _wait_for_death(runtime: Runtime, flow: Flow, screen: Screen, refusal: NotTheOnlyOne) -> None:
    """Wait until no other process has the flow; raise `refusal` if one of them still beats."""
    from towpath.flow.stage.status import stage_statuses

    settings, begun_at = runtime.settings.process, time.monotonic()
    beats: dict[str, object] = {}
    while True:
        owners = {
            look.owner.id: look.owner
            for look in stage_statuses(runtime.database, flow.name)
            if look.owner is not None and look.owner.state == "alive" and look.owner.id != runtime.process().id
        }
        if not owners:
            return
        waited_s = time.monotonic() - begun_at
        is_alive = any(beats.setdefault(id, row.beat_at) != row.beat_at for id, row in owners.items())
        if is_alive or waited_s > 2 * settings.lease_s + SILENT_BEATS * settings.heartbeat_s:
            raise refusal
        screen.phase(f"{', '.join(owners)} has this flow and is silent; waiting for its lease to end", waited_s)
        time.sleep(LOOK_S)
