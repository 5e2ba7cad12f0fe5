"""How stages look: their state and trouble in words, as a picture on a terminal, and followed until Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from towpath.cli.context import say
from towpath.cli.output import (
    STYLES,
    Column,
    age,
    can_redraw,
    console,
    plain,
    print_fields,
    print_json,
    print_table,
    time_and_age,
)
from towpath.core.clock import MICROS, to_datetime
from towpath.errors import DatabaseUnavailable
from towpath.flow.delivery.places import counts_of
from towpath.flow.failures import MEANINGS, ErrorCode
from towpath.flow.stage import StageMachine, StageState
from towpath.flow.stage.status import StageStatus, stage_statuses, state_word
from towpath.operations.flows import stage_item

if TYPE_CHECKING:
    from datetime import datetime

    from rich.console import RenderableType
    from rich.table import Table

    from towpath.core.events import Event
    from towpath.runtime import Runtime


FEWEST_PARTITIONS = 3
OTHER_LINES = 6  # title, heads, empty lines and the last one
HEALTHY = "green"
ROUND_S = 1.0
# From batch to batch: nobody wants a line for each.
EVERYDAY = frozenset({StageState.EXTRACT, StageState.TRANSFORM, StageState.LOAD, StageState.ERRORS})


@dataclass(frozen=True, slots=True)
class StageLine:
    """One stage as it is shown. `counts` are read, loaded, filtered and failed."""

    name: str
    machine: StageMachine
    sample: Mapping[str, Any]
    counts: Mapping[str, int]
    is_run: bool = True


def print_look(look: StageStatus) -> None:
    """Print all that is known of a stage's state."""
    stage, machine = look.stage, look.stage.machine
    now = to_datetime(look.now)
    error = machine.last_error
    seen = "" if look.is_run else f"; as of {time_and_age(stage.updated_at, now)}"
    lag = stage.sample.get("lag")
    print_fields(
        [
            ("stage", f"{stage.flow}/{stage.name}"),
            ("state", look.state),
            ("since", time_and_age(to_datetime(machine.since), now)),
            ("because", machine.reason or None),
            ("attempt", machine.attempt or None),
            (
                "next try",
                f"{_next_try(machine, look.now)}, then goes on with {machine.resumes}" if machine.is_waiting else None,
            ),
            ("last error", _code_text(error.code, error.step, error.message) if error else None),
            ("", time_and_age(to_datetime(error.at), now) if error else None),
            ("batch", machine.batch_id),
            ("run by", look.run_by),
            ("wanted", _wish_text(look, now)),
            ("rate", f"{stage.sample.get('rate', 0.0):,.1f} records/s" if look.is_run else None),
            ("lag", None if lag is None else f"{lag:,}{seen}"),
        ]
    )
    if partitions := _partitions_of(stage.sample):
        typer.echo()
        names = ("position", "end", "lag")
        columns = [Column("partition"), *(Column(name, right=True, whole=True) for name in names)]
        rows = [[f"{each['topic']}/{each['partition']}", *(f"{each[name]:,}" for name in names)] for each in partitions]
        print_table(columns, rows)


def watched(runtime: Runtime, flow: str, stage: str | None, as_json: bool) -> None:
    """Show the state until Ctrl-C: a picture that moves on a terminal, elsewhere a line for each change."""
    show = _as_documents if as_json else _as_picture if can_redraw(sys.stdout) else _as_lines
    show(lambda: stage_statuses(runtime.database, flow, stage), runtime)


def picture(stages: Sequence[StageLine], now: int, height: int) -> RenderableType:
    """All stages, in no more lines than the terminal has."""
    from rich.console import Group

    lines: list[RenderableType] = [_stages(stages, now), *_troubles(stages, now)]
    room = height - 2 * len(stages) - OTHER_LINES
    partitions = [each for stage in stages for each in _partitions_of(stage.sample)]
    if partitions:
        lines += ["", _partitions(partitions, max(FEWEST_PARTITIONS, room))]
    return Group(*lines)


def time_in_state(machine: StageMachine, now: int) -> str:
    return age(to_datetime(machine.since), to_datetime(max(now, machine.since)))


def trouble_of(machine: StageMachine, now: int) -> str:
    """Why a stage waits or rests, and until when; empty for a stage at work."""
    if machine.is_resting:
        return machine.reason
    if not machine.is_waiting or machine.last_error is None:
        return ""
    error = machine.last_error
    return f"{_next_try(machine, now)}, attempt {machine.attempt}: {_code_text(error.code, error.step, error.message)}"


def moved_text(event: Event) -> str:
    """A line about a move; empty for the everyday moves from batch to batch."""
    before, after = StageState(event.data["from"]), StageState(event.data["to"])
    if {before, after} <= EVERYDAY or before is after:
        return ""
    text = f"{event.subject}: {before} → {after}"
    if "code" in event.data:
        text += f", {_code_text(event.data['code'], event.data['step'])}"
    return text + (f": {event.why}" if event.why else "")


def number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _code_text(code: int, step: str = "", message: str = "") -> str:
    """`code 9 at label, a step failed on it: KeyError …`"""
    at = f" at {step}" if step else ""
    return f"code {int(code)}{at}, {MEANINGS[ErrorCode(code)]}" + (f": {message}" if message else "")


def _next_try(machine: StageMachine, now: int) -> str:
    verb = "probes" if machine.state is StageState.HELD else "tries again"
    left_s = ((machine.next_try or now) - now) / MICROS
    return f"{verb} in {left_s:.0f} s" if left_s >= 1 else f"{verb} now"


def _partitions_of(sample: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Where a stage is in each partition; those of the re-entry topic only when something has come back."""
    found: list[dict[str, Any]] = sample.get("partitions", [])
    return [each for each in found if each["end"] or not each["topic"].endswith(".reentry")]


def _stages(stages: Sequence[StageLine], now: int) -> Table:
    from rich.text import Text

    table = _table(("stage", "state"), ("for", "rate/s", "lag", "loaded", "filtered", "failed"))
    for stage in stages:
        word = state_word(stage.machine, stage.sample)
        counts = [f"{stage.counts.get(name, 0):,}" for name in ("loaded", "filtered", "failed")]
        table.add_row(
            Text(plain(stage.name)),
            Text(word, style=STYLES.get(word, HEALTHY) if stage.is_run else "dim"),
            time_in_state(stage.machine, now),
            f"{stage.sample.get('rate', 0.0) if stage.is_run else 0.0:,.1f}",
            number(stage.sample.get("lag")),
            *counts[:-1],
            Text(counts[-1], style="red" if counts[-1] != "0" else ""),
        )
    return table


def _troubles(stages: Sequence[StageLine], now: int) -> Iterable[RenderableType]:
    from rich.text import Text

    for stage in stages:
        if trouble := trouble_of(stage.machine, now):
            style = STYLES.get(stage.machine.state, "yellow")
            yield Text(f"{stage.name}: {plain(trouble)}", style=style, no_wrap=True, overflow="ellipsis")


def _partitions(partitions: list[dict[str, Any]], most: int) -> Table:
    """A table of partitions; only the furthest behind when there are too many."""
    kept = partitions
    if len(partitions) > most:
        far = sorted(partitions, key=lambda each: -each["lag"])[: most - 1]
        kept = [each for each in partitions if each in far]
    table = _table(("partition",), ("position", "end", "lag"))
    for each in kept:
        name = f"{each['topic']}/{each['partition']}"
        table.add_row(name, *(f"{each[column]:,}" for column in ("position", "end", "lag")))
    if len(kept) < len(partitions):
        lag = sum(each["lag"] for each in partitions if each not in kept)
        table.add_row(f"and {len(partitions) - len(kept)} more", "", "", f"{lag:,}")
    return table


def _table(left: Sequence[str], right: Sequence[str]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for title in left:
        table.add_column(title, no_wrap=True, overflow="ellipsis")
    for title in right:
        table.add_column(title, no_wrap=True, justify="right")
    return table


def _wish_text(look: StageStatus, now: datetime) -> str | None:
    wish = look.stage.wish
    return None if wish is None else f"{wish.kind}, by {wish.who}, {time_and_age(wish.at, now)}: {wish.why}"


def _rounds(look: Callable[[], Sequence[StageStatus]], show: Callable[[Sequence[StageStatus]], None]) -> None:
    is_away = False
    while True:
        try:
            show(look())
            is_away = False
        except DatabaseUnavailable as error:
            if not is_away:
                say(f"waiting: {error}")
            is_away = True
        time.sleep(ROUND_S)


def _as_documents(look: Callable[[], Sequence[StageStatus]], _: Runtime) -> None:
    def show(found: Sequence[StageStatus]) -> None:
        print_json({"items": [stage_item(each) for each in found]})
        sys.stdout.flush()

    _rounds(look, show)


def _as_lines(look: Callable[[], Sequence[StageStatus]], _: Runtime) -> None:
    said: dict[str, str] = {}

    def show(found: Sequence[StageStatus]) -> None:
        for each in found:
            lag, rate = each.stage.sample.get("lag", "-"), each.stage.sample.get("rate", 0.0)
            text = f"{each.stage.flow}/{each.stage.name}: {each.state}, lag {lag}, {rate:,.1f}/s, run by {each.run_by}"
            if said.get(each.stage.name) != text:
                said[each.stage.name] = text
                typer.echo(f"{to_datetime(each.now):%H:%M:%S} {text}")
        sys.stdout.flush()

    _rounds(look, show)


def _as_picture(look: Callable[[], Sequence[StageStatus]], runtime: Runtime) -> None:
    from rich.live import Live

    from towpath.flow.delivery.ledger import Ledger

    out = console()
    ledger = Ledger(runtime.database)

    def drawn(found: Sequence[StageStatus]) -> RenderableType:
        with runtime.database.read() as tx:
            totals = ledger.totals(tx, found[0].stage.flow)
        shown = [
            StageLine(
                each.stage.name,
                each.stage.machine,
                each.stage.sample,
                counts_of(totals.get(each.stage.name, {})),
                each.is_run,
            )
            for each in found
        ]
        return picture(shown, found[0].now, out.height)

    with Live(console=out, auto_refresh=False) as live:
        _rounds(look, lambda found: live.update(drawn(found), refresh=True))
