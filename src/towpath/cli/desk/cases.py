"""`towpath desk`: looking at what has failed, exporting it, and editing the copy of a record that goes out next."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from towpath.cli.context import UsageError, open_runtime
from towpath.cli.desk.options import (
    CaseFilterOptions,
    CaseName,
    Cases,
    Flow,
    Masked,
    desk_state,
    found_cases,
    masks_of,
)
from towpath.cli.options import DEFAULT_ROWS, AsJson, Before, Limit, TextCursor, Who, Why, read_argument, spread
from towpath.cli.output import cut, plain, print_done, print_json
from towpath.cli.topics.lines import to_line
from towpath.core.clock import to_datetime
from towpath.core.exact_json import Exact
from towpath.errors import BadEdit

if TYPE_CHECKING:
    from towpath.desk.case_queries import CaseView
    from towpath.desk.edits import EditResult


app = typer.Typer(help="Look at what has failed in flows, and settle it.", no_args_is_help=True)

EditNumber = Annotated[int, typer.Argument(metavar="EDIT", min=1, show_default=False, help="The number of the edit.")]


@app.command("list")
@spread
def list_(
    ctx: typer.Context,
    given: CaseFilterOptions,
    everything: Annotated[bool, typer.Option("--settled", help="Also what has left the desk.")] = False,
    limit: Limit = DEFAULT_ROWS,
    before: Before = None,
    masked: Masked = False,
    as_json: AsJson = False,
) -> None:
    """Cases that are not settled, the newest first."""
    from towpath.cli.desk.case_views import print_cases
    from towpath.desk.cases.model import LIVE
    from towpath.operations.cases import case_item

    with open_runtime(ctx) as runtime:
        now = runtime.database.now()
        selection = given.selection(now // 1000)
        if selection.states is None and not everything:
            selection = selection.within(states=tuple(sorted(LIVE)))
        desk = runtime.desk
        page = desk.cases.page(selection, limit=limit, before=before, masks=masks_of(desk, masked))
    if as_json:
        print_json({"items": [case_item(case) for case in page.cases], "next": page.next})
    else:
        hidden = "" if everything or given.state else " (--settled also shows what has left the desk)"
        print_cases(page.cases, to_datetime(now), page.next, f"no case matches{hidden}")


@app.command()
def show(
    ctx: typer.Context,
    case: CaseName,
    record: Annotated[
        bool, typer.Option("--record", help="Also the error record, read from its topic by its offset.")
    ] = False,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the whole body into a file, byte by byte.")
    ] = None,
    masked: Masked = False,
    as_json: AsJson = False,
) -> None:
    """One case: what happened to it and when, the body that goes out next, edits and history."""
    from towpath.cli.desk.case_views import print_case, view_item
    from towpath.cli.topics.views import print_record

    with open_runtime(ctx) as runtime:
        desk = runtime.desk
        masks = masks_of(desk, masked)
        view = desk.cases.show(desk.cases.find(case).id, masks=masks)
        found = desk.cases.record(view.case, masks=masks) if record else None
        if save is not None:
            save.write_bytes(desk.cases.body(view.case.id, masks=masks) or b"")
        now = to_datetime(runtime.database.now())
    if as_json:
        print_json(view_item(view) | ({"record": Exact(to_line(found)) if found else None} if record else {}))
        return
    print_case(view, now)
    if record:
        typer.echo()
        if found is None:
            typer.echo(f"{view.case.error_topic} does not have its error record any more", file=sys.stdout)
        else:
            print_record(found)


@app.command()
def groups(
    ctx: typer.Context,
    flow: Flow = None,
    state: Annotated[
        str | None, typer.Option(metavar="STATE", help="Only new, ongoing, resolved, archived or regressed.")
    ] = None,
    limit: Limit = DEFAULT_ROWS,
    before: TextCursor = None,
    as_json: AsJson = False,
) -> None:
    """Groups of cases of one cause, the one with the newest error first."""
    from towpath.cli.desk.group_views import cursor_of, print_groups, read_cursor
    from towpath.desk.groups.model import GroupState
    from towpath.operations.cases import group_item

    wanted = None if state is None else desk_state(GroupState, state, "a group")
    mark = None if before is None else read_cursor(before)
    with open_runtime(ctx) as runtime:
        found = runtime.desk.groups.page(flow=flow, state=wanted, limit=limit + 1, before=mark)
        now = to_datetime(runtime.database.now())
    page, cursor = cut(found, limit, cursor_of)
    if as_json:
        print_json({"items": [group_item(group) for group in page], "next": cursor})
    else:
        print_groups(page, now, cursor)


@app.command()
@spread
def export(
    ctx: typer.Context,
    given: CaseFilterOptions,
    cases: Cases = None,
    form: Annotated[str, typer.Option("--format", metavar="FORMAT", help="`json` (a line each) or `csv`.")] = "json",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Into a file; else to standard output.")
    ] = None,
    masked: Masked = False,
) -> None:
    """Cases with what went into the flow, the newest first: those that are named, or all that match."""
    from towpath.desk.cases.model import CaseSelection
    from towpath.operations.cases import CaseExport, ExportFormat

    if form not in list(ExportFormat):
        raise UsageError(f"--format {form!r} is not json or csv")
    if cases and given.is_given:
        raise UsageError("name cases, or say what they have in common; not both")
    with open_runtime(ctx) as runtime:
        desk = runtime.desk
        if cases:
            selection = CaseSelection(ids=tuple(case.id for case in found_cases(desk, cases)))
        else:
            selection = given.selection(runtime.database.now() // 1000)
        lines = CaseExport(desk.cases).lines(selection, ExportFormat(form), masks=masks_of(desk, masked))
        if output is None:
            for line in lines:
                sys.stdout.write(safe(line))
            return
        with output.open("w", encoding="utf-8", newline="") as file:
            file.writelines(lines)


@app.command()
def edit(
    ctx: typer.Context,
    case: CaseName,
    why: Why,
    value: Annotated[
        str | None, typer.Option(metavar="JSON", help="The whole new body: JSON, `-` (standard input) or `@FILE`.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=JSON", help="Change one field, such as city='\"Bonn\"'; several times."),
    ] = None,
    original: Annotated[
        bool, typer.Option("--original", help="Take all edits back: the record itself goes out next.")
    ] = False,
    flow: Annotated[
        str | None,
        typer.Option(
            metavar="FLOW",
            help="Check against the JSON Schema of this flow, MODULE:FLOW or FILE.py; expectations are not checked.",
        ),
    ] = None,
    replay: Annotated[bool, typer.Option("--replay", help="Send it back at once.")] = False,
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Change the body that goes out next; the record itself is kept. Without options it opens your editor."""
    from towpath.flow.flow import find_flow

    ways = sum((value is not None, bool(set_), original))
    if ways > 1:
        raise UsageError("--value, --set and --original: one of them")
    if ways == 0 and not sys.stdin.isatty():
        raise UsageError("say what to change: --value, --set or --original")
    code = None if flow is None else find_flow(flow).flow
    with open_runtime(ctx) as runtime:
        desk = runtime.desk
        view = desk.cases.show(desk.cases.find(case).id)
        if original:
            desk.edits.restore(view.case.id, seen=view.seen, who=who, why=why)
            done = None
        else:
            with changed_body(view.case.seq, view.value, value, set_) as body:
                done = desk.edits.edit(view.case.id, body, seen=view.seen, who=who, why=why, flow=code)
        after = desk.cases.show(view.case.id)
        if replay and not (done is not None and done.is_proposed):
            desk.operate.replay([view.case.id], who=who, why=why)
    _say(after, done, as_json, replay)


@app.command()
def agree(
    ctx: typer.Context, case: CaseName, edit: EditNumber, why: Why, who: Who = "", as_json: AsJson = False
) -> None:
    """As a second person, let a proposed edit go out next."""
    with open_runtime(ctx) as runtime:
        found = runtime.desk.cases.find(case)
        runtime.desk.edits.agree(found.id, edit, who=who, why=why)
    _say_decided(found.id, found.seq, edit, "applied", as_json)


@app.command()
def refuse(
    ctx: typer.Context, case: CaseName, edit: EditNumber, why: Why, who: Who = "", as_json: AsJson = False
) -> None:
    """Do not let a proposed edit go out."""
    with open_runtime(ctx) as runtime:
        found = runtime.desk.cases.find(case)
        runtime.desk.edits.refuse(found.id, edit, who=who, why=why)
    _say_decided(found.id, found.seq, edit, "refused", as_json)


def safe(line: str) -> str:
    """The line without control characters for a terminal; unchanged for a pipe."""
    return f"{plain(line.rstrip(chr(10)))}\n" if sys.stdout.isatty() else line


def changed_body(
    case: int, body: bytes | None, value: str | None, set_: list[str] | None
) -> AbstractContextManager[bytes]:
    """The new body of a case: as given, or the old one with fields set, or as changed in the editor."""
    from towpath.cli.interactive import edited_text
    from towpath.desk.edit_body import with_fields

    if value is not None:
        return nullcontext(read_argument(value))
    if body is None:
        raise BadEdit(f"case {case} has no body: there is nothing to change")
    if set_:
        return nullcontext(with_fields(body, [_pair(each) for each in set_]))
    return edited_text(body)


def _pair(text: str) -> tuple[str, str]:
    path, sign, value = text.partition("=")
    if not sign or not path:
        raise UsageError(f"--set {text!r} is not PATH=JSON")
    return path, value


def _say(view: CaseView, done: EditResult | None, as_json: bool, replay: bool) -> None:
    from towpath.cli.desk.case_views import print_changes

    case = view.case
    shown = next((each for each in view.edits if done is not None and each.edit.edit == done.edit.edit), None)
    if as_json:
        changes = [change._asdict() for change in shown.changes] if shown else []
        item: dict[str, Any] = {"id": case.id, "edit": case.edit if done is None else done.edit.edit}
        print_json(item | {"state": "applied" if done is None else done.edit.state, "changes": changes})
        return
    if done is None:
        typer.echo(f"the record itself goes out next of case {case.seq}")
        return
    print_changes(shown.changes if shown else ())
    typer.echo(f"edit {done.edit.edit} of case {case.seq}: {done.checked}")
    if done.is_proposed:
        typer.echo(f"another person has to agree: towpath desk agree {case.seq} {done.edit.edit} --why …")
    elif replay:
        typer.echo(f"sent back: case {case.seq}")
    else:
        typer.echo(f"it goes out when you say so: towpath desk replay {case.seq} --why …")


def _say_decided(id: str, seq: int, edit: int, what: str, as_json: bool) -> None:
    print_done({"id": id, "edit": edit, "state": what}, f"edit {edit} of case {seq} is {what}", as_json)
