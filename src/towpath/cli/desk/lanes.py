"""`towpath lane`: where records wait that are to be tried again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from towpath.cli.context import UsageError, open_runtime
from towpath.cli.options import AsJson, Who, Why, Yes, confirm
from towpath.cli.output import Column, print_fields, print_json, print_table
from towpath.core.clock import MICROS, to_datetime

if TYPE_CHECKING:
    from towpath.desk.replay.lane_service import LaneView


app = typer.Typer(help="See and steer the lanes in which records wait to be tried again.", no_args_is_help=True)

LaneName = Annotated[
    str,
    typer.Argument(metavar="FLOW/LANE", show_default=False, help="A lane, as `towpath lane list` shows it: shop/0."),
]

_COLUMNS = (
    Column("lane", whole=True),
    Column("delay", right=True, whole=True),
    Column("jitter", right=True, whole=True, from_width=90),
    Column("waiting", right=True, whole=True),
    Column("next due", right=True, whole=True),
    Column("last due", right=True, whole=True, from_width=90),
    Column("state", whole=True),
    Column("run by"),
)


@app.command("list")
def list_(
    ctx: typer.Context,
    flow: Annotated[str | None, typer.Option(metavar="FLOW", help="Only those of this flow.")] = None,
    as_json: AsJson = False,
) -> None:
    """Lanes, by flow: how long records wait in each, and how many wait now."""
    with open_runtime(ctx) as runtime:
        found = runtime.lanes.list(flow)
        now = runtime.database.now()
    if as_json:
        print_json({"items": [_lane_item(each) for each in found]})
    else:
        print_table(_COLUMNS, [_cells(each, now) for each in found])


@app.command()
def show(ctx: typer.Context, lane: LaneName, as_json: AsJson = False) -> None:
    """One lane."""
    with open_runtime(ctx) as runtime:
        found = runtime.lanes.show(*split(lane))
        now = runtime.database.now()
    if as_json:
        print_json(_lane_item(found))
    else:
        titles = [column.title for column in _COLUMNS]
        more = [("position", found.lane.position), ("released beyond it", len(found.lane.beyond.after) or None)]
        print_fields([*zip(titles, _cells(found, now), strict=True), *more])


@app.command()
def pause(ctx: typer.Context, lane: LaneName, why: Why, who: Who = "") -> None:
    """Release nothing more of it until it is resumed; what is due goes on waiting."""
    with open_runtime(ctx) as runtime:
        done = runtime.lanes.pause(*split(lane), who=who, why=why)
    typer.echo(f"{lane} is paused" if done else f"{lane} was paused already")


@app.command()
def resume(ctx: typer.Context, lane: LaneName, why: Why, who: Who = "") -> None:
    """Let a paused lane go on."""
    with open_runtime(ctx) as runtime:
        done = runtime.lanes.resume(*split(lane), who=who, why=why)
    typer.echo(f"{lane} goes on" if done else f"{lane} was not paused")


@app.command()
def hurry(ctx: typer.Context, lane: LaneName, why: Why, who: Who = "") -> None:
    """Release all that waits in it now, as if it were due. What comes later waits as ever."""
    with open_runtime(ctx) as runtime:
        count = runtime.lanes.hurry(*split(lane), who=who, why=why)
    typer.echo(f"{count} records of {lane} are due now")


@app.command()
def empty(
    ctx: typer.Context,
    lane: LaneName,
    why: Why,
    who: Who = "",
    yes: Yes = False,
) -> None:
    """Put all that waits in it in front of persons: as open cases on the desk."""
    with open_runtime(ctx) as runtime:
        if not yes:
            waiting = runtime.lanes.show(*split(lane)).crowd.cases
            confirm(f"open {waiting} cases that wait in {lane}?", "nothing was opened")
        count = runtime.lanes.empty(*split(lane), who=who, why=why)
    typer.echo(f"{count} records of {lane} are on the desk")


def split(lane: str) -> tuple[str, int]:
    """Split FLOW/NUMBER into its two parts."""
    flow, _, number = lane.rpartition("/")
    if not flow or not number.isdecimal() or not number.isascii():
        raise UsageError(f"{lane!r} is not a lane; write FLOW/NUMBER, such as shop/0")
    return flow, int(number)


def _lane_item(view: LaneView) -> dict[str, Any]:
    """A lane, as JSON has it."""
    lane, crowd = view.lane, view.crowd
    return {
        "flow": lane.flow,
        "lane": lane.partition,
        "topic": lane.topic,
        "delay_s": lane.delay_ms / 1000,
        "jitter_s": lane.jitter_ms / 1000,
        "is_paused": lane.is_paused,
        "waiting": crowd.cases,
        "first_due": None if crowd.first_due is None else to_datetime(crowd.first_due),
        "last_due": None if crowd.last_due is None else to_datetime(crowd.last_due),
        "position": lane.position,
        "released_beyond": len(lane.beyond.after),
        "owner": lane.owner,
        "made_at": lane.made_at,
    }


def _cells(view: LaneView, now: int) -> list[object]:
    from towpath.policy import spelled

    lane, crowd = view.lane, view.crowd
    return [
        lane.name,
        spelled(lane.delay_ms / 1000),
        spelled(lane.jitter_ms / 1000) if lane.jitter_ms else None,
        crowd.cases,
        _in(crowd.first_due, now),
        _in(crowd.last_due, now),
        "paused" if lane.is_paused else "running" if lane.owner else "nobody runs it",
        lane.owner,
    ]


def _in(due_at: int | None, now: int) -> str | None:
    """`in 40s`, or `now`."""
    from towpath.policy import spelled

    if due_at is None:
        return None
    left_s = round((due_at - now) / MICROS)
    return f"in {spelled(left_s)}" if left_s > 0 else "now"
