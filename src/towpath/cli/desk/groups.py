"""`towpath desk group`: one group of cases, and what persons think of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.context import UsageError, open_runtime
from towpath.cli.desk.options import GroupNumber, found_cases
from towpath.cli.options import AsJson, Who, Why, is_age, parse_age_s, parse_time_ms
from towpath.cli.output import plain, print_json
from towpath.core.clock import MICROS, to_datetime

if TYPE_CHECKING:
    from towpath.desk.desk import Desk
    from towpath.desk.groups.model import Archive, Group


app = typer.Typer(help="One group of cases: why they are together, and what is thought of it.", no_args_is_help=True)


@app.command()
def show(ctx: typer.Context, group: GroupNumber, as_json: AsJson = False) -> None:
    """One group: how many cases are where, why they are together, and what was done to it."""
    from towpath.cli.desk.group_views import print_group
    from towpath.desk.masks import NO_MASKS
    from towpath.operations.cases import group_view

    with open_runtime(ctx) as runtime:
        view = runtime.desk.groups.show(group)
        now = to_datetime(runtime.database.now())
    if as_json:
        print_json(group_view(view, NO_MASKS))
    else:
        print_group(view, now)


@app.command()
def assign(
    ctx: typer.Context,
    group: GroupNumber,
    why: Why,
    to: Annotated[str | None, typer.Option(metavar="NAME", help="Who is to look at it; nobody if not given.")] = None,
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Give a group to a person."""
    _change(ctx, as_json, lambda desk: desk.groups.assign(group, to, who=who, why=why))


@app.command()
def note(
    ctx: typer.Context,
    group: GroupNumber,
    text: Annotated[str, typer.Argument(metavar="TEXT", show_default=False, help="What is to be remembered.")],
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Keep a remark with a group."""
    _change(ctx, as_json, lambda desk: desk.groups.note(group, text, who=who))


@app.command()
def ongoing(ctx: typer.Context, group: GroupNumber, why: Why, who: Who = "", as_json: AsJson = False) -> None:
    """Say that a group is known and somebody is at work on it."""
    _change(ctx, as_json, lambda desk: desk.groups.look(group, who=who, why=why))


@app.command()
def resolve(ctx: typer.Context, group: GroupNumber, why: Why, who: Who = "", as_json: AsJson = False) -> None:
    """Say that the cause is mended: an error that comes now brings the group back. Its cases stay as they are."""
    _change(ctx, as_json, lambda desk: desk.groups.resolve(group, who=who, why=why))


@app.command()
def archive(
    ctx: typer.Context,
    group: GroupNumber,
    why: Why,
    more: Annotated[int | None, typer.Option(min=1, metavar="N", help="Until so many more cases have come.")] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Until this time: 12h (from now), or a date and time.")
    ] = None,
    rate: Annotated[
        str | None, typer.Option(metavar="N/TIME", help="Until so many come in a time, such as 100/1h.")
    ] = None,
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Hear no more of a group until so many more, a time, or a rate; for ever without. Its cases stay as they are."""
    if sum(option is not None for option in (more, until, rate)) > 1:
        raise UsageError("--more, --until and --rate: one of them")
    with open_runtime(ctx) as runtime:
        wanted = archive_of(more, until, rate, runtime.database.now())
        group_now = runtime.desk.groups.archive(group, wanted, who=who, why=why)
    _say(group_now, as_json)


@app.command()
def merge(
    ctx: typer.Context,
    group: GroupNumber,
    into: Annotated[int, typer.Argument(metavar="INTO", min=1, show_default=False, help="The group it goes into.")],
    why: Why,
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Let the cases of a group count as those of another one, and errors that come as well."""
    _change(ctx, as_json, lambda desk: desk.groups.merge(group, into, who=who, why=why))


@app.command()
def unmerge(ctx: typer.Context, group: GroupNumber, why: Why, who: Who = "", as_json: AsJson = False) -> None:
    """Take a group out of the one that it was merged into."""
    _change(ctx, as_json, lambda desk: desk.groups.unmerge(group, who=who, why=why))


@app.command()
def split(
    ctx: typer.Context,
    group: GroupNumber,
    why: Why,
    case: Annotated[
        list[str] | None, typer.Option(metavar="CASE", help="A case that leaves it; may be given several times.")
    ] = None,
    fingerprint: Annotated[
        str | None, typer.Option(metavar="TEXT", help="All that came under this fingerprint, and what comes.")
    ] = None,
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="What the new group is called.")] = None,
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Make a group of its own of some cases, or of all of one fingerprint."""
    from towpath.operations.cases import group_item

    if (case is None) == (fingerprint is None):
        raise UsageError("say which: --case (several times), or --fingerprint")
    with open_runtime(ctx) as runtime:
        desk = runtime.desk
        ids = None if case is None else [each.id for each in found_cases(desk, case)]
        done = desk.groups.split(group, who=who, why=why, ids=ids, fingerprint=fingerprint, title=title)
    if as_json:
        print_json({"group": group_item(done.group), "moved": done.moved, "job": done.job_id})
        return
    typer.echo(f"group {done.group.id} is new, with {done.moved:,} cases of group {group}")
    if done.job_id is not None:
        typer.echo(f"a bulk job brings the others: towpath desk job show {done.job_id}")


def archive_of(more: int | None, until: str | None, rate: str | None, now_us: int) -> Archive:
    """How long the group stays archived, by the options."""
    from towpath.desk.groups.model import Archive

    if rate is not None:
        count, _, time = rate.partition("/")
        per_s = parse_age_s(time, "--rate")
        if not count.isdecimal() or not isinstance(per_s, float):
            raise UsageError(f"--rate {rate!r} is not a number and a time, such as 100/1h")
        return Archive(rate=int(count), per_s=per_s)
    return Archive(more=more) if until is None else Archive(until_us=_until_us(until, now_us))


def _until_us(text: str, now_us: int) -> int:
    """An age counts from now; anything else is a date and time."""
    if is_age(text):
        return now_us + round(float(parse_age_s(text, "--until")) * MICROS)
    at = parse_time_ms(text, "--until", now_us // 1000) * 1000
    if at <= now_us:
        raise UsageError(f"--until {text!r} is in the past")
    return at


def _change(ctx: typer.Context, as_json: bool, change: Callable[[Desk], Group]) -> None:
    with open_runtime(ctx) as runtime:
        group = change(runtime.desk)
    _say(group, as_json)


def _say(group: Group, as_json: bool) -> None:
    from towpath.operations.cases import group_item

    if as_json:
        print_json(group_item(group))
    else:
        whose = f", for {group.assignee}" if group.assignee else ""
        typer.echo(plain(f"group {group.id} is {group.state}{whose}: {group.live:,} cases on the desk"))
