"""How groups of cases look: as rows, and one with why its cases are together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import typer

from towpath.cli.failures import UsageError
from towpath.cli.output import (
    Column,
    age,
    console,
    plain,
    print_fields,
    print_older,
    print_table,
    time_and_age,
)
from towpath.clock import to_datetime, to_micros
from towpath.desk.case_state import CaseState
from towpath.desk.desk_json import done_item, fingerprint_item, group_item
from towpath.desk.group import Group
from towpath.desk.group_state import GroupState
from towpath.desk.group_store import Mark
from towpath.desk.operating_groups import GroupView

_COLUMNS = (
    Column("group", right=True, whole=True),
    Column("state", whole=True),
    Column("open", right=True, whole=True),
    Column("waiting", right=True, whole=True),
    Column("replaying", right=True, whole=True),
    Column("settled", right=True, whole=True, from_width=100),
    Column("flow"),
    Column("code", right=True, whole=True),
    Column("step"),
    Column("what happened"),
    Column("last", right=True, whole=True),
    Column("for", from_width=110),
)


def group_state(text: str) -> GroupState:
    try:
        return GroupState(text.lower())
    except ValueError:
        raise UsageError(f"{text!r} is no state of a group; those are: {', '.join(GroupState)}") from None


def cursor_of(group: Group) -> str:
    return f"{to_micros(group.last_at)}-{group.id}"


def read_cursor(text: str) -> Mark:
    at, _, number = text.partition("-")
    if not (at.isdecimal() and number.isdecimal()):
        raise UsageError(f"--before {text!r} is not a cursor that a list has printed")
    return to_datetime(int(at)), int(number)


def print_groups(groups: Sequence[Group], now: datetime, cursor: str | None) -> None:
    rows = [
        [
            group.id,
            group.state,
            f"{group.cases[CaseState.OPEN]:,}",
            f"{group.cases[CaseState.WAITING] + group.cases[CaseState.PARKED]:,}",
            f"{group.cases[CaseState.REPLAYING]:,}",
            f"{group.cases.total() - group.live:,}",
            group.flow,
            group.code,
            group.step,
            group.headline,
            age(group.last_at, now),
            group.assignee,
        ]
        for group in groups
    ]
    print_table(_COLUMNS, rows)
    if not rows:
        console().print("no group matches", style="dim")
    print_older(cursor)


def group_view_item(view: GroupView) -> dict[str, Any]:
    """For programs."""
    return {
        **group_item(view.group),
        "fingerprints": [fingerprint_item(each) for each in view.fingerprints],
        "history": [done_item(each) for each in view.history],
    }


def print_group(view: GroupView, now: datetime) -> None:
    group = view.group
    counts = ", ".join(f"{count:,} {state}" for state, count in sorted(group.cases.items()) if count)
    print_fields(
        [
            ("group", group.id),
            ("state", group.state),
            ("archived", None if group.archive is None else json.dumps(group.archive.to_json())),
            ("flow", group.flow),
            ("where", f"code {group.code} in {group.step}"),
            ("what", group.headline),
            ("cases", counts or "none"),
            ("first", time_and_age(group.first_at, now)),
            ("last", time_and_age(group.last_at, now)),
            ("for", group.assignee),
            ("merged into", group.merged_into),
        ]
    )
    typer.echo()
    console().print("why these are together", style="bold")
    for known in view.fingerprints:
        console().print(plain(f"{known.fingerprint} (algorithm {known.algorithm})"), soft_wrap=True)
        for name, value in known.made_of.items():
            console().print(plain(f"  {name}: {value}"), style="dim", soft_wrap=True)
    if view.history:
        typer.echo()
        rows = [[f"{each.at:%Y-%m-%d %H:%M:%S}", each.what, each.who, each.why] for each in view.history]
        print_table([Column("at (UTC)", whole=True), Column("what", whole=True), Column("who"), Column("why")], rows)
