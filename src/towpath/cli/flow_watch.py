"""The state of a flow: once, or again and again until Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import typer

from towpath.cli.failures import say
from towpath.cli.flow_view import Shown, partitions_of, picture
from towpath.cli.flow_words import code_text, next_try
from towpath.cli.output import Column, can_redraw, console, print_fields, print_json, print_table, time_and_age
from towpath.clock import to_datetime
from towpath.errors import DatabaseUnavailable
from towpath.flow.batch_counts import counts_of
from towpath.flow.flow_json import stage_item
from towpath.flow.look import Look, looks

if TYPE_CHECKING:
    from datetime import datetime

    from rich.console import RenderableType

    from towpath.runtime import Runtime

ROUND_S = 1.0


def print_look(look: Look) -> None:
    """All that is known of a stage's state."""
    stage, pilot = look.stage, look.stage.pilot
    now = to_datetime(look.now)
    error = pilot.last_error
    seen = "" if look.is_run else f"; as of {time_and_age(stage.updated_at, now)}"
    lag = stage.sample.get("lag")
    print_fields(
        [
            ("stage", f"{stage.flow}/{stage.name}"),
            ("state", look.state),
            ("since", time_and_age(to_datetime(pilot.since), now)),
            ("because", pilot.reason or None),
            ("attempt", pilot.attempt or None),
            (
                "next try",
                f"{next_try(pilot, look.now)}, then goes on with {pilot.resumes}" if pilot.is_waiting else None,
            ),
            ("last error", code_text(error.code, error.step, error.message) if error else None),
            ("", time_and_age(to_datetime(error.at), now) if error else None),
            ("batch", pilot.batch_id),
            ("run by", look.run_by),
            ("wanted", _wish_text(look, now)),
            ("rate", f"{stage.sample.get('rate', 0.0):,.1f} records/s" if look.is_run else None),
            ("lag", None if lag is None else f"{lag:,}{seen}"),
        ]
    )
    if partitions := partitions_of(stage.sample):
        typer.echo()
        names = ("position", "end", "lag")
        columns = [Column("partition"), *(Column(name, right=True, whole=True) for name in names)]
        rows = [[f"{each['topic']}/{each['partition']}", *(f"{each[name]:,}" for name in names)] for each in partitions]
        print_table(columns, rows)


def _wish_text(look: Look, now: datetime) -> str | None:
    wish = look.stage.wish
    return None if wish is None else f"{wish.kind}, by {wish.who}, {time_and_age(wish.at, now)}: {wish.why}"


def watched(runtime: Runtime, flow: str, stage: str | None, as_json: bool) -> None:
    """Until Ctrl-C. On a terminal one picture that moves, elsewhere a line whenever something is other than before."""
    show = _as_documents if as_json else _as_picture if can_redraw(sys.stdout) else _as_lines
    show(lambda: looks(runtime.database, flow, stage), runtime)


def _rounds(look: Callable[[], Sequence[Look]], show: Callable[[Sequence[Look]], None]) -> None:
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


def _as_documents(look: Callable[[], Sequence[Look]], _: Runtime) -> None:
    def show(found: Sequence[Look]) -> None:
        print_json({"items": [stage_item(each) for each in found]})
        sys.stdout.flush()

    _rounds(look, show)


def _as_lines(look: Callable[[], Sequence[Look]], _: Runtime) -> None:
    said: dict[str, str] = {}

    def show(found: Sequence[Look]) -> None:
        for each in found:
            lag, rate = each.stage.sample.get("lag", "-"), each.stage.sample.get("rate", 0.0)
            text = f"{each.stage.flow}/{each.stage.name}: {each.state}, lag {lag}, {rate:,.1f}/s, run by {each.run_by}"
            if said.get(each.stage.name) != text:
                said[each.stage.name] = text
                typer.echo(f"{to_datetime(each.now):%H:%M:%S} {text}")
        sys.stdout.flush()

    _rounds(look, show)


def _as_picture(look: Callable[[], Sequence[Look]], runtime: Runtime) -> None:
    from rich.live import Live

    from towpath.flow.ledger import Ledger

    out = console()
    ledger = Ledger(runtime.database)

    def drawn(found: Sequence[Look]) -> RenderableType:
        with runtime.database.read() as tx:
            totals = ledger.totals(tx, found[0].stage.flow)
        shown = [
            Shown(
                each.stage.name,
                each.stage.pilot,
                each.stage.sample,
                counts_of(totals.get(each.stage.name, {})),
                each.is_run,
            )
            for each in found
        ]
        return picture(shown, found[0].now, out.height)

    with Live(console=out, auto_refresh=False) as live:
        _rounds(look, lambda found: live.update(drawn(found), refresh=True))
