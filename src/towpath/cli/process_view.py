"""How processes, duties and deaths are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from towpath.cli.output import Column, age, plain, print_fields, print_table, short_time, time_and_age
from towpath.exact_json import to_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from towpath.db.processes import ProcessRow
    from towpath.supervision.death import Death
    from towpath.supervision.duty import Duty
    from towpath.supervision.duty_desk import DutyView

_DEATHS = (
    Column("duty", whole=True),
    Column("start", right=True, whole=True),
    Column("noticed (UTC)", whole=True),
    Column("how", whole=True),
    Column("code", whole=True),
    Column("freed"),
    Column("back after", right=True, whole=True),
    Column("host", from_width=100),
    Column("said", from_width=120),
)


def print_duty(view: DutyView, now: datetime) -> None:
    duty, process = view.duty, view.process
    print_fields(
        [
            ("name", duty.name),
            ("kind", duty.kind),
            ("host", duty.host),
            ("state", duty.state),
            ("wish", f"{duty.wish} ({duty.who}: {duty.why})" if duty.why else duty.wish),
            ("trouble", duty.trouble or None),
            ("start", f"number {duty.launch}" if duty.launch else None),
            ("started", time_and_age(duty.launched_at, now) if duty.is_running else None),
            ("ready", time_and_age(duty.ready_at, now) if duty.is_running else None),
            ("next start", time_and_age(duty.next_try_at, now)),
            ("command", " ".join(duty.spec.command)),
            *([] if process is None else _process_fields(process, now)),
        ]
    )
    if view.deaths:
        typer.echo("\ndeaths:")
        print_deaths(view.deaths, now)


def print_process(row: ProcessRow, now: datetime) -> None:
    fields: list[tuple[str, object]] = [("name", row.name), ("kind", row.kind or None), ("host", row.host)]
    print_fields([*fields, ("started", time_and_age(row.started_at, now)), *_process_fields(row, now)])


def _process_fields(row: ProcessRow, now: datetime) -> list[tuple[str, object]]:
    return [
        ("process", row.id),
        ("pid", row.pid),
        ("alive", row.state),
        ("status", row.status or None),
        ("progress", None if row.progress is None else to_json(row.progress)),
        ("version", row.version or None),
        ("last beat", time_and_age(row.beat_at, now)),
    ]


def print_deaths(deaths: Sequence[Death], now: datetime) -> None:
    print_table(_DEATHS, [_death_cells(each, now) for each in deaths])


def _death_cells(death: Death, now: datetime) -> list[object]:
    code = f"signal {death.exit_signal}" if death.exit_signal is not None else death.exit_code
    freed = "" if not death.freed else ", ".join(f"{count} {what}" for what, count in death.freed.items() if count)
    back = "" if death.back_at is None else f"{(death.back_at - death.noticed_at).total_seconds():.1f}s"
    noticed = short_time(death.noticed_at, now)
    return [death.duty, death.launch, noticed, death.how, code, freed, back, death.host, death.trouble]


def state_and_trouble(duty: Duty, now: datetime) -> str:
    """For one line: what it is, and what is in the way."""
    wait = "" if duty.next_try_at is None else f", again in {age(duty.next_try_at, now).removeprefix('+')}"
    return plain(f"{duty.trouble}{wait}") if duty.trouble else ""
