"""How cases look in a list, and what is said after a change."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import typer

from towpath.cli.output import (
    Column,
    age,
    console,
    plain,
    print_json,
    print_older,
    print_table,
    short_time,
)
from towpath.desk.case import Case
from towpath.desk.group import happened

if TYPE_CHECKING:
    from towpath.desk.operating import Performed

_COLUMNS = (
    Column("case", right=True, whole=True),
    Column("state", whole=True),
    Column("group", right=True, whole=True),
    Column("flow"),
    Column("code", right=True, whole=True),
    Column("step"),
    Column("what happened"),
    Column("tries", right=True, whole=True, from_width=100),
    Column("failed", right=True, whole=True),
    Column("record", from_width=120),
    Column("for", from_width=100),
    Column("failed (UTC)", whole=True, from_width=140),
)


def counted(cases: int) -> str:
    return "1 case" if cases == 1 else f"{cases:,} cases"


def print_cases(cases: Sequence[Case], now: datetime, cursor: int | None, nothing: str = "no case matches") -> None:
    rows = [
        [
            case.seq,
            case.state,
            case.group_id,
            case.flow,
            case.code,
            case.step,
            happened(case.exception, case.message),
            case.attempts,
            age(case.failed_at, now),
            case.input,
            case.assignee,
            short_time(case.failed_at, now),
        ]
        for case in cases
    ]
    print_table(_COLUMNS, rows)
    if not rows:
        console().print(nothing, style="dim")
    print_older(cursor)


def say_performed(done: Performed, what: str, as_json: bool, named: Sequence[Case]) -> None:
    """What was done to which of those that were named, and what was refused and why."""
    if as_json:
        print_json({"done": [case.id for case in done.done], "refused": dict(done.refused)})
        return
    if done.done:
        numbers = ", ".join(str(case.seq) for case in done.done)
        typer.echo(f"{what}: {'case' if len(done.done) == 1 else 'cases'} {numbers}")
    seqs = {case.id: case.seq for case in named}
    for case_id, why in done.refused.items():
        console().print(f"not case {seqs.get(case_id, case_id)}: {plain(why)}", style="red", soft_wrap=True)
