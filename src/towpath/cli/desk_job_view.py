"""How bulk jobs look: as rows, one whole, and its items."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

import typer

from towpath.cli.desk_bulk import job_words
from towpath.cli.failures import UsageError
from towpath.cli.output import (
    Column,
    age,
    console,
    print_fields,
    print_older,
    print_table,
    time_and_age,
)
from towpath.desk.desk_json import item_item, job_item
from towpath.desk.job import Item, Job
from towpath.desk.job_state import ItemState, JobState
from towpath.desk.jobs import JobView

_COLUMNS = (
    Column("job", right=True, whole=True),
    Column("state", whole=True),
    Column("kind", whole=True),
    Column("name"),
    Column("cases", right=True, whole=True),
    Column("done", right=True, whole=True),
    Column("refused", right=True, whole=True),
    Column("left", right=True, whole=True),
    Column("who"),
    Column("made", right=True, whole=True),
    Column("why", from_width=110),
)
_ITEMS = (
    Column("case", right=True, whole=True),
    Column("state", whole=True),
    Column("id", whole=True),
    Column("what was said"),
)

State = TypeVar("State", bound=StrEnum)


def _named(states: type[State], text: str, what: str) -> State:
    try:
        return states(text.lower())
    except ValueError:
        raise UsageError(f"{text!r} is no state of {what}; those are: {', '.join(states)}") from None


def job_state(text: str) -> JobState:
    return _named(JobState, text, "a job")


def item_state(text: str) -> ItemState:
    return _named(ItemState, text, "an item")


def print_jobs(jobs: Sequence[Job], now: datetime, cursor: int | None) -> None:
    rows = [
        [
            job.seq,
            job.state,
            job.kind,
            job.name,
            f"{job.cases:,}",
            f"{job.done:,}",
            f"{job.refused:,}",
            f"{job.left:,}",
            job.who,
            age(job.made_at, now),
            job.why,
        ]
        for job in jobs
    ]
    print_table(_COLUMNS, rows)
    print_older(cursor)


def job_view_item(view: JobView) -> dict[str, Any]:
    """For programs."""
    return {**job_item(view.job), "now": dict(view.now), "refused_first": [item_item(item) for item in view.refused]}


def print_job(view: JobView, now: datetime) -> None:
    job = view.job
    arguments = {name: value for name, value in job.arguments.items() if name not in ("last_seq", "counted")}
    print_fields(
        [
            ("job", f"{job.seq} ({job.id})"),
            ("name", job.name),
            ("state", job.state),
            ("what", f"{job.kind} {json.dumps(arguments)}" if arguments else job.kind),
            ("which", json.dumps(job.selection.to_json())[:500]),
            ("counted", f"{job.arguments.get('counted', job.cases):,}"),
            ("far", job_words(job)),
            ("at most", None if job.rate_s is None else f"{job.rate_s:g} cases a second"),
            ("who", f"{job.who}: {job.why}"),
            ("made", time_and_age(job.made_at, now)),
            ("begun", time_and_age(job.begun_at, now)),
            ("ended", time_and_age(job.ended_at, now)),
            ("cases now", ", ".join(f"{count:,} {state}" for state, count in sorted(view.now.items())) or None),
        ]
    )
    if view.refused:
        typer.echo()
        print_items(view.refused, None)


def print_items(items: Sequence[Item], cursor: int | None) -> None:
    print_table(_ITEMS, [[item.number, item.state, item.case_id, item.said] for item in items])
    if cursor is not None:
        console().print(f"more: the same command with --after {cursor}", style="dim")
