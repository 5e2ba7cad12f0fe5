"""How cases look, in a list and one whole, and what is said after a change. No text of theirs can move a cursor."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

from towpath.cli.output import (
    Column,
    age,
    console,
    plain,
    pretty,
    print_fields,
    print_json,
    print_older,
    print_table,
    short_time,
    time_and_age,
)
from towpath.core.exact_json import read_exactly
from towpath.desk.case_queries import CaseView, EditView
from towpath.desk.cases.model import Case
from towpath.desk.cases.store import HistoryRow
from towpath.desk.edit_body import BodyDifference
from towpath.desk.edits import CHANGES
from towpath.desk.groups.model import happened
from towpath.flow.failures import MEANINGS, ErrorCode
from towpath.flow.records.errors import PREFIX
from towpath.operations.cases import case_view

if TYPE_CHECKING:
    from towpath.desk.actions.service import ActionResult


SHOWN_BYTES = 16 << 10
_BYTES_A_LINE = 16
_BINARY_LINES = 8

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


def print_case(view: CaseView, now: datetime) -> None:
    case = view.case
    print_fields(_fields(case, view, now))
    _print_attempts(view, now)
    _print_body(case, view)
    for each in view.edits:
        _print_edit(each, now)
    _print_history(view.history, now)


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


def say_performed(done: ActionResult, what: str, as_json: bool, named: Sequence[Case]) -> None:
    """Print which of the named cases were changed, which were refused, and why."""
    if as_json:
        print_json({"done": [case.id for case in done.done], "refused": dict(done.refused)})
        return
    if done.done:
        numbers = ", ".join(str(case.seq) for case in done.done)
        typer.echo(f"{what}: {'case' if len(done.done) == 1 else 'cases'} {numbers}")
    seqs = {case.id: case.seq for case in named}
    for case_id, why in done.refused.items():
        console().print(f"not case {seqs.get(case_id, case_id)}: {plain(why)}", style="red", soft_wrap=True)


def print_changes(changes: Iterable[BodyDifference]) -> None:
    """Print the differences: before in red, after in green."""
    for change in changes:
        if change.before is not None:
            console().print(f"- {plain(change.path)}: {plain(change.before)}", style="red", soft_wrap=True)
        if change.after is not None:
            console().print(f"+ {plain(change.path)}: {plain(change.after)}", style="green", soft_wrap=True)


def view_item(view: CaseView) -> dict[str, Any]:
    """A case with everything about it, as JSON has it."""
    item = case_view(view)
    del item["seen"]
    item["group"] = item.pop("of_group")  # in place of the group's number
    return item


def _fields(case: Case, view: CaseView, now: datetime) -> list[tuple[str, object]]:
    settled = None if case.settled_by is None else f"by {case.settled_by}: {case.settled_why}"
    place = (
        case.input if case.stop is None else f"{case.topic}/{case.partition}, offsets {case.offset} to {case.stop - 1}"
    )
    return [
        ("case", f"{case.seq} ({case.id})"),
        ("state", case.state),
        ("what", f"code {case.code}, {MEANINGS.get(ErrorCode(case.code), '')}"),
        ("where", f"{case.flow}/{case.stage}, step {case.step}" + (f", output {case.output}" if case.output else "")),
        ("error", happened(case.exception, case.message)),
        ("group", f"{case.group_id}: {view.group.headline} ({view.group.live:,} on the desk)"),
        ("record", place),
        ("error record", f"{case.error_topic}/{case.error_partition}/{case.error_offset}"),
        ("key", None if case.key is None else _text(case.key)),
        ("attempts", f"{case.attempts}" + (f", given back {case.give_backs} times" if case.give_backs else "")),
        ("failed first", time_and_age(case.first_failed_at, now)),
        ("failed last", time_and_age(case.failed_at, now)),
        ("due", time_and_age(case.due_at, now)),
        ("behind", case.behind),
        ("rule", case.rule),
        ("for", case.assignee),
        ("settled", None if case.settled_at is None else f"{time_and_age(case.settled_at, now)} {settled or ''}"),
        ("ignored", settled if case.settled_at is None else None),
    ]


def _print_attempts(view: CaseView, now: datetime) -> None:
    for each in view.attempts:
        _heading(f"attempt {each.attempt}, {time_and_age(each.failed_at, now)}")
        console().print(
            plain(f"code {each.code} in {each.step}: {happened(each.exception, each.message)}"), soft_wrap=True
        )
        for line in each.trace.rstrip().split("\n") if each.trace else ():
            console().print(f"  {plain(line)}", style="dim", soft_wrap=True)


def _print_body(case: Case, view: CaseView) -> None:
    if view.value is None:
        return
    edited = "" if case.edit == 0 else f", edit {case.edit}"
    _heading(f"body{edited}, {len(view.value):,} bytes" + (", some fields hidden" if view.is_masked else ""))
    for name, value in view.headers:
        if name.startswith(PREFIX):
            continue  # ours; what they say stands above
        console().print(plain(f"header {name}: {_text(value or b'')}"), style="dim", soft_wrap=True)
    for line in _shown_body(view.value):
        console().print(line, soft_wrap=True)


def _shown_body(value: bytes) -> Iterable[str]:
    """JSON over several lines, text as it is, bytes as hexadecimal; never more than a screenful or two."""
    cut = value[:SHOWN_BYTES]
    more = len(value) - len(cut)
    try:
        text = cut.decode() if not more else cut.decode(errors="ignore")
    except UnicodeDecodeError:
        yield from _hexadecimal(value)
        return
    if not more:
        try:
            yield from pretty(read_exactly(text)).split("\n")
            return
        except (json.JSONDecodeError, RecursionError):
            pass
    yield from (plain(line) for line in text.split("\n"))
    if more:
        yield f"… {more:,} bytes more; --save FILE writes all of them"


def _hexadecimal(value: bytes) -> Iterable[str]:
    shown = value[: _BYTES_A_LINE * _BINARY_LINES]
    for at in range(0, len(shown), _BYTES_A_LINE):
        part = shown[at : at + _BYTES_A_LINE]
        yield f"{at:06x}  {part.hex(' '):<47}  {''.join(chr(b) if 32 <= b < 127 else '.' for b in part)}"
    if len(value) > len(shown):
        yield f"… {len(value) - len(shown):,} bytes more; --save FILE writes all of them"


def _print_edit(view: EditView, now: datetime) -> None:
    edit = view.edit
    decided = "" if edit.decided_by in (None, edit.who) else f", decided by {edit.decided_by}"
    _heading(f"edit {edit.edit}, {edit.state}, by {edit.who}{decided}, {time_and_age(edit.made_at, now)}: {edit.why}")
    print_changes(view.changes)


def _print_history(history: Iterable[HistoryRow], now: datetime) -> None:
    rows = [[f"{each.at:%Y-%m-%d %H:%M:%S}", each.what, each.who, each.why, _more(each.data)] for each in history]
    if rows:
        typer.echo()
        columns = [Column("at (UTC)", whole=True), Column("what", whole=True), Column("who"), Column("why")]
        print_table([*columns, Column("more", from_width=120)], rows)


def _more(data: dict[str, Any]) -> str:
    """The data of a history row, without the changes of an edit: those are printed with the edit."""
    return json.dumps(shown) if (shown := {name: each for name, each in data.items() if name != CHANGES}) else ""


def _heading(text: str) -> None:
    typer.echo()
    console().print(plain(text), style="bold", soft_wrap=True)


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value[:60].hex(" ")
