"""What a run of a flow shows: the start of Spark, its stages while they run, and what came of it at the end.

While it runs, all of it goes to standard error: a picture that moves on a terminal, lines elsewhere. Java's output is
led there too, so that it does not run through the picture.
"""

from __future__ import annotations

import os
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol, TextIO

import typer

from towpath.cli.flows.views import StageLine, moved_text, picture, trouble_of
from towpath.cli.output import Column, can_redraw, console, plain, print_json, print_table
from towpath.core.events import Event, EventKind
from towpath.flow.delivery.ledger import Counts, added
from towpath.flow.delivery.places import counts_of, names_of
from towpath.flow.failures import MEANINGS, ErrorCode
from towpath.flow.stage import StageState
from towpath.flow.stage.status import state_word

if TYPE_CHECKING:
    from rich.console import RenderableType

    from towpath.cli.context import CliContext
    from towpath.flow.flow import Flow
    from towpath.flow.stage import StageMachine
    from towpath.runtime import Runtime
    from towpath.spark.artifacts import FetchProgress


LOOK_S = 0.1
STATUS_EVERY_S = 10.0
DRAW_EVERY_S = 0.25
MEGABYTE = 1_000_000
NOISE = "WARNING: Using incubator modules"  # of every Java that Spark starts
SOME_ERRORS = 10
KEPT = (EventKind.FLOW_CHANGED, EventKind.FLOW_GAP_FOUND)


class Screen(Protocol):
    """Where a run shows itself."""

    def phase(self, text: str, seconds: float) -> None:
        """What is done before the flow runs, and for how many seconds so far."""

    def say(self, text: str) -> None:
        """One line that stays; from any thread."""

    def note(self, text: str) -> None:
        """What the person should know from now on; replaces the last note."""

    def on_event(self, event: Event) -> None:
        """A subscriber of the process's events, called from any thread."""

    def stages(self, stages: Sequence[StageLine], now: int) -> None:
        """The present state of the stages; called often."""

    def close(self) -> None:
        """Remove the picture; lines stay."""


def open_screen(title: str) -> Screen:
    return LiveScreen(title) if can_redraw(sys.stderr) else LineScreen()


class LineScreen:
    """A line for each unusual move, and the state of each stage every ten seconds."""

    def __init__(self) -> None:
        self._stream = _own_stderr()
        self._lock = threading.Lock()
        self._phase = ""
        self._status_at = time.monotonic()

    def phase(self, text: str, seconds: float) -> None:
        if text != self._phase:
            self._phase = text
            self.say(f"{text} …")

    def say(self, text: str) -> None:
        with self._lock:
            self._stream.write(f"{datetime.now(UTC):%H:%M:%S} {plain(text)}\n")
            self._stream.flush()

    def note(self, text: str) -> None:
        self.say(text)
        self._status_at = time.monotonic()

    def on_event(self, event: Event) -> None:
        if text := _event_text(event):
            self.say(text)

    def stages(self, stages: Sequence[StageLine], now: int) -> None:
        if time.monotonic() - self._status_at < STATUS_EVERY_S:
            return
        self._status_at = time.monotonic()
        for stage in stages:
            counts = ", ".join(f"{count:,} {name}" for name, count in stage.counts.items())
            lag, rate = stage.sample.get("lag", "-"), stage.sample.get("rate", 0.0)
            trouble = trouble_of(stage.machine, now)
            self.say(
                f"{stage.name}: {state_word(stage.machine, stage.sample)}, {counts}, lag {lag}, {rate:,.1f}/s"
                + (f"; {trouble}" if trouble else "")
            )

    def close(self) -> None:
        self._stream.close()


class LiveScreen:
    """One picture that moves, with the few lines that are worth keeping above it."""

    def __init__(self, title: str) -> None:
        from rich.console import Console
        from rich.live import Live

        self._stream = _own_stderr()
        self._console = Console(file=self._stream, highlight=False, markup=False, emoji=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._title = title
        self._note = ""
        self._drawn_at = 0.0
        self._live.start()

    def phase(self, text: str, seconds: float) -> None:
        from rich.text import Text

        self._draw(Text(f"{self._title}: {text} … {seconds:.0f} s"))

    def say(self, text: str) -> None:
        self._console.print(plain(text), soft_wrap=True)

    def note(self, text: str) -> None:
        self._note = plain(text)

    def on_event(self, event: Event) -> None:
        if event.kind in KEPT:
            self._console.print(plain(_event_text(event)), style="yellow", soft_wrap=True)

    def stages(self, stages: Sequence[StageLine], now: int) -> None:
        from rich.console import Group
        from rich.text import Text

        head = Text.assemble((self._title, "bold"), ("  " + self._note, "dim"), no_wrap=True, overflow="ellipsis")
        self._draw(Group(head, "", picture(stages, now, self._console.height)))

    def close(self) -> None:
        self._live.stop()
        self._stream.close()

    def _draw(self, drawn: RenderableType) -> None:
        if time.monotonic() - self._drawn_at >= DRAW_EVERY_S:
            self._drawn_at = time.monotonic()
            self._live.update(drawn, refresh=True)


def start_spark(runtime: Runtime, name: str, screen: Screen) -> None:
    """Start this process's Spark session in a thread of its own, so that signals are handled meanwhile."""
    with java_output_to(screen.say):
        start = _Start(runtime, name)
        start.thread.start()
        while start.thread.is_alive():
            start.thread.join(LOOK_S)
            screen.phase(start.phase, time.monotonic() - start.begun_at)
    if start.error is not None:
        raise start.error


@contextmanager
def java_output_to(say: Callable[[str], None]) -> Iterator[None]:
    """Pass each line to `say` that processes started inside print: standard output is for results."""
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    kept = {number: os.dup(number) for number in (1, 2)}
    threading.Thread(target=_pump, args=(reading, say), name="java-output", daemon=True).start()
    try:
        for number in kept:
            os.dup2(writing, number)
        yield
    finally:
        for number, own in kept.items():
            os.dup2(own, number)
            os.close(own)
        os.close(writing)


class RunTally:
    """Adds up the batches of this process, by stage. A subscriber of its events."""

    def __init__(self, flow: str) -> None:
        self._flow = flow
        self._lock = threading.Lock()
        self._stages: dict[str, dict[str, Any]] = {}

    def __call__(self, event: Event) -> None:
        flow, _, stage = event.subject.partition("/")
        if event.kind is EventKind.BATCH_COMMITTED and flow == self._flow:
            counts: Counts = {name: value for name, value in event.data.items() if name not in ("batch_id", "took_s")}
            with self._lock:
                before = self._stages.get(stage, {"batches": 0})
                self._stages[stage] = {**added(before, counts), "batches": before["batches"] + 1}

    def of(self, stage: str) -> dict[str, Any]:
        """`{"read": 9, "filtered": {"label": 1}, "failed": {"9": 2}, …}`"""
        with self._lock:
            return self._stages.get(stage, {})


def print_end(flow: Flow, machines: Mapping[str, StageMachine], tally: RunTally, given: CliContext) -> None:
    """Print the outcome for people."""
    names = names_of(counts_of(tally.of(stage)) for stage in machines)
    columns = [
        Column("stage"),
        Column("state", whole=True),
        *(Column(name, right=True, whole=True) for name in (*names, "batches")),
        Column("because"),
    ]
    rows = []
    for stage, machine in machines.items():
        counts = counts_of(tally.of(stage))
        numbers = [f"{counts.get(name, 0):,}" for name in names]
        rows.append([stage, machine.state, *numbers, tally.of(stage).get("batches", 0), machine.reason])
    print_table(columns, rows)
    filtered, failed = _summed(machines, tally, "filtered"), _summed(machines, tally, "failed")
    if filtered:
        typer.echo("\nfiltered")
        print_table(
            [Column("records", right=True), Column("by step")], [[f"{n:,}", step] for step, n in filtered.items()]
        )
    if failed:
        typer.echo("\nfailed")
        print_table(
            [Column("records", right=True), Column("code", right=True), Column("meaning")],
            [[f"{count:,}", code, MEANINGS[ErrorCode(int(code))]] for code, count in failed.items()],
        )
        own = "" if flow.error_topic == f"{flow.name}.errors" else f" --topic {flow.error_topic}"
        typer.echo("\nLook at them, or read them whole:")
        typer.echo(f"  {_own_command(given, f'flow errors {flow.name}{own}')}")
        typer.echo(f"  {_own_command(given, f'topic read {flow.error_topic} -n {SOME_ERRORS}')}")
    for stage, machine in machines.items():
        if machine.state is StageState.HALTED:
            console().print(f"\n✗ {stage} is halted: {plain(machine.reason)}", style="bold red", soft_wrap=True)
            resume = _own_command(given, f"flow resume {flow.name} {shlex.quote(stage)} --why 'it is mended'")
            typer.echo(f"When that is mended, let it go on and run it again:\n  {resume}")


def print_end_json(flow: Flow, machines: Mapping[str, StageMachine], tally: RunTally) -> None:
    """Print the outcome for programs."""
    stages = [
        {
            "stage": stage,
            "state": machine.state,
            "reason": machine.reason,
            "batches": tally.of(stage).get("batches", 0),
            **counts_of(tally.of(stage)),
            "filtered_by": tally.of(stage).get("filtered", {}),
            "failed_by_code": tally.of(stage).get("failed", {}),
            "delivered": tally.of(stage).get("delivered", {}),
        }
        for stage, machine in machines.items()
    ]
    print_json({"flow": flow.name, "stages": stages, "error_topic": flow.error_topic})


def parts_text(total: int, parts: Mapping[str, int], each: str) -> str:
    """`3: 2 with code 9, 1 with code 7`"""
    shown = ", ".join(f"{count:,} {each.format(name)}" for name, count in parts.items() if count)
    return f"{total:,}: {shown}" if shown else f"{total:,}"


def _event_text(event: Event) -> str:
    """A line about an event of a flow; empty for everyday events."""
    match event.kind:
        case EventKind.FLOW_MOVED:
            return moved_text(event)
        case EventKind.FLOW_CHANGED:
            return f"{event.subject} is not as in its last run: {'; '.join(event.data['changes'])}"
        case EventKind.FLOW_GAP_FOUND:
            where = "{topic}/{partition} from {from} to before {to}".format_map(event.data)
            return f"{event.subject}: {where} will never be read: {event.why}"
    return ""


def _own_stderr() -> TextIO:
    """A copy of standard error: Java's output is redirected from the descriptor itself."""
    return os.fdopen(os.dup(2), "w", encoding="utf-8", errors="replace")


@dataclass(slots=True)
class _Start:
    runtime: Runtime
    name: str
    phase: str = field(init=False)
    thread: threading.Thread = field(init=False)
    begun_at: float = field(default_factory=time.monotonic)
    error: Exception | None = None

    def __post_init__(self) -> None:
        self.phase = f"starting Spark on {self.runtime.settings.spark.master}"
        self.thread = threading.Thread(target=self._run, name="start-spark", daemon=True)

    def _run(self) -> None:
        from towpath.log.open import KAFKA_PREFIX
        from towpath.spark.session import build_session

        settings = self.runtime.settings
        try:
            is_kafka = settings.log.url.startswith(KAFKA_PREFIX)
            build_session(settings.spark, self.name, connector=is_kafka, report=self._fetching)
        except Exception as error:
            self.error = error

    def _fetching(self, progress: FetchProgress) -> None:
        if progress.is_waiting:
            self.phase = f"waiting for another process that is fetching {progress.name}"
        elif progress.files < progress.files_total:
            done, total = progress.bytes / MEGABYTE, progress.bytes_total / MEGABYTE
            self.phase = f"fetching {progress.name}: {done:.0f} of {total:.0f} MB"
        else:
            self.phase = f"starting Spark on {self.runtime.settings.spark.master}"


def _pump(reading: int, say: Callable[[str], None]) -> None:
    with open(reading, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.strip() and not line.startswith(NOISE):
                try:
                    say(line.rstrip())
                except ValueError:  # the screen is closed, and Java is ending
                    return


def _own_command(given: CliContext, words: str) -> str:
    """How to call this program again with the same settings."""
    options = ""
    if given.config is not None:
        options += f" --config {shlex.quote(str(given.config))}"
    if given.database is not None:
        options += f" --database {shlex.quote(given.database)}"
    return f"towpath{options} {words}"


def _summed(machines: Mapping[str, Any], tally: RunTally, name: str) -> dict[str, int]:
    """Counts by step or code, summed over all stages."""
    total: dict[str, int] = {}
    for stage in machines:
        for part, count in tally.of(stage).get(name, {}).items():
            total[part] = total.get(part, 0) + count
    return {part: total[part] for part in sorted(total, key=lambda part: (len(part), part)) if total[part]}
