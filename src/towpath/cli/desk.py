"""`towpath desk`: looking at what has failed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from towpath.cli.desk_options import CaseName, Filter, Flow, Masked, masks_of
from towpath.cli.given import open_runtime
from towpath.cli.option_groups import spread
from towpath.cli.options import DEFAULT_ROWS, AsJson, Before, Limit
from towpath.cli.output import print_json

app = typer.Typer(help="Look at what has failed in flows, and settle it.", no_args_is_help=True)


@app.command("list")
@spread
def list_(
    ctx: typer.Context,
    given: Filter,
    everything: Annotated[bool, typer.Option("--settled", help="Also what has left the desk.")] = False,
    limit: Limit = DEFAULT_ROWS,
    before: Before = None,
    masked: Masked = False,
    as_json: AsJson = False,
) -> None:
    """Cases that are not settled, the newest first."""
    from towpath.cli.desk_view import print_cases
    from towpath.clock import to_datetime
    from towpath.desk.case_state import LIVE
    from towpath.desk.desk_json import case_item

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
    from towpath.cli.desk_show import print_case, view_item
    from towpath.cli.topic_json import to_line
    from towpath.cli.topic_view import print_record
    from towpath.clock import to_datetime

    with open_runtime(ctx) as runtime:
        desk = runtime.desk
        masks = masks_of(desk, masked)
        view = desk.cases.show(desk.cases.find(case).id, masks=masks)
        found = desk.cases.record(view.case, masks=masks) if record else None
        if save is not None:
            save.write_bytes(desk.cases.body(view.case.id, masks=masks) or b"")
        now = to_datetime(runtime.database.now())
    if as_json:
        from towpath.exact_json import Exact

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
    before: Annotated[
        str | None, typer.Option(metavar="CURSOR", help="Go on where a list ended: the cursor that it printed.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Groups of cases of one cause, the one with the newest error first."""
    from towpath.cli.desk_group_view import cursor_of, group_state, print_groups, read_cursor
    from towpath.clock import to_datetime
    from towpath.desk.desk_json import group_item

    wanted = None if state is None else group_state(state)
    mark = None if before is None else read_cursor(before)
    with open_runtime(ctx) as runtime:
        found = runtime.desk.groups.page(flow=flow, state=wanted, limit=limit + 1, before=mark)
        now = to_datetime(runtime.database.now())
    page = found[:limit]
    cursor = cursor_of(page[-1]) if len(found) > limit else None
    if as_json:
        print_json({"items": [group_item(group) for group in page], "next": cursor})
    else:
        print_groups(page, now, cursor)
