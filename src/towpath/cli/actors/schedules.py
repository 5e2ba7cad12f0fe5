"""`towpath actor schedule`: starts of actors by the clock."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from towpath.cli.actors.commands import Target, found_here, open_actors, split
from towpath.cli.context import UsageError, open_runtime
from towpath.cli.options import AsJson, Who, Why, parse_age_s, spread
from towpath.cli.output import Column, age, print_done, print_fields, print_json, print_table, short_time, time_and_age
from towpath.cli.queue.commands import read_payload
from towpath.core.clock import to_datetime
from towpath.core.exact_json import to_json

if TYPE_CHECKING:
    from datetime import datetime

    from towpath.actors.registry import KnownClass
    from towpath.actors.schedules.model import Rhythm, Schedule


app = typer.Typer(help="Start actors by the clock: see, add and change schedules.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="SCHEDULE", show_default=False, help="The schedule's name.")]
StateName = Annotated[
    str | None, typer.Option("--state", metavar="STATE", help="With which state; the actor's first if not given.")
]
Payload = Annotated[str | None, typer.Option(metavar="JSON", help="The fields of the state: JSON, `-` or `@FILE`.")]

_CLOCK = re.compile(r"([0-9]{1,2}):([0-9]{2})")
_HOURS = re.compile(r"([0-9]{1,2})-([0-9]{1,2})")

_COLUMNS = (
    Column("schedule"),
    Column("starts"),
    Column("when", whole=True),
    Column("next", right=True, whole=True),
    Column("last", right=True, whole=True),
    Column("last run", whole=True),
    Column("next (UTC)", whole=True, from_width=110),
    Column("note"),
)


@dataclass(frozen=True)
class RhythmOptions:
    """Options that say when a schedule is due; see `spread`."""

    every: Annotated[str | None, typer.Option(metavar="AGE", help="Every so often: 90s, 15m, 12h or 7d.")] = None
    since: Annotated[
        str | None,
        typer.Option(
            metavar="made|run", help="With --every: counted from when it was made, or from its last run; `made`."
        ),
    ] = None
    daily: Annotated[str | None, typer.Option(metavar="HH:MM", help="Every day at this time.")] = None
    window: Annotated[
        str | None, typer.Option(metavar="FROM-TO", help="Once between these hours, such as 22-6; over midnight too.")
    ] = None
    zone: Annotated[
        str | None,
        typer.Option(metavar="ZONE", help="Whose clock, with --daily and --window: Europe/Berlin; else UTC."),
    ] = None

    def rhythm(self) -> Rhythm | None:
        """The rhythm that the options describe; None without options."""
        from towpath.actors.schedules import model

        if sum(each is not None for each in (self.every, self.daily, self.window)) > 1:
            raise UsageError("--every, --daily and --window: only one of them")
        if self.since is not None and (self.every is None or self.since not in tuple(model.Since)):
            raise UsageError(f"--since {self.since}: say `made` or `run`, together with --every")
        if self.zone is not None and self.daily is None and self.window is None:
            raise UsageError("--zone goes with --daily or --window")
        if self.every is not None:
            seconds = parse_age_s(self.every, "--every")
            if isinstance(seconds, str):
                raise UsageError("--every never: leave the schedule away, or disable it")
            return model.Interval(seconds, model.Since(self.since or model.Since.MADE))
        if self.daily is not None:
            hour, minute = _numbers(_CLOCK, self.daily, "--daily", "a time such as 03:30")
            return model.Daily(hour, minute, self.zone or "UTC")
        if self.window is not None:
            first, last = _numbers(_HOURS, self.window, "--window", "two hours such as 22-6")
            return model.Window(first, last, self.zone or "UTC")
        return None


@app.command("list")
def list_(
    ctx: typer.Context,
    actor: Annotated[str | None, typer.Option(metavar="ACTOR", help="Only those of this actor.")] = None,
    as_json: AsJson = False,
) -> None:
    """Schedules, by name: when each is due next, and what came of its last run."""
    from towpath.operations.actors import schedule_item

    with open_runtime(ctx) as runtime:
        found = runtime.actors.schedules.list(actor=actor)
        now = to_datetime(runtime.database.now())
    if as_json:
        print_json({"items": [schedule_item(each) for each in found]})
    else:
        print_table(_COLUMNS, [_cells(each, now) for each in found])


@app.command()
def show(ctx: typer.Context, schedule: Name, as_json: AsJson = False) -> None:
    """One schedule: what it starts, when, and what came of its last run."""
    from towpath.operations.actors import schedule_item

    with open_runtime(ctx) as runtime:
        found = runtime.actors.schedules.show(schedule)
        now = to_datetime(runtime.database.now())
    if as_json:
        print_json(schedule_item(found))
    else:
        _print(found, now)


@app.command()
@spread
def add(
    ctx: typer.Context,
    schedule: Name,
    target: Target,
    why: Why,
    when: RhythmOptions,
    state: StateName = None,
    payload: Payload = None,
    disabled: Annotated[bool, typer.Option("--disabled", help="Add it, and let it rest until it is enabled.")] = False,
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Start an actor by the clock. Say --every, --daily or --window."""
    from towpath.actors.instance import MAIN
    from towpath.actors.registry import known_actor

    name, instance = split(target)
    rhythm = when.rhythm()
    if rhythm is None:
        raise UsageError("say when: --every 15m, --daily 03:30 or --window 22-6")
    fields = None if payload is None else read_payload(payload)
    with open_actors(ctx) as (runtime, classes):
        known = known_actor(classes, name)
        added = runtime.actors.schedules.add(
            schedule,
            name,
            rhythm,
            who=who,
            why=why,
            instance=instance or MAIN,
            state=state,
            payload=_fields(known, state, fields),
            is_enabled=not disabled,
        )
    _say(added, "added", as_json)


@app.command()
@spread
def change(
    ctx: typer.Context,
    schedule: Name,
    why: Why,
    when: RhythmOptions,
    instance: Annotated[str | None, typer.Option(metavar="INSTANCE", help="Which instance it starts.")] = None,
    state: StateName = None,
    payload: Payload = None,
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Change what is given: when, which instance, with which state or fields. A new state comes with its fields."""
    from towpath.actors.registry import known_actors

    rhythm = when.rhythm()
    if rhythm is None and instance is None and state is None and payload is None:
        raise UsageError("say what to change: --every, --daily, --window, --instance, --state or --payload")
    fields = None if payload is None else read_payload(payload)
    found = found_here(ctx)
    with open_runtime(ctx) as runtime:
        schedules = runtime.actors.schedules
        before = schedules.show(schedule)
        given: dict[str, Any] = {}
        if state is not None or payload is not None:
            known = known_actors(runtime.actors.known(), found).get(before.actor)
            wanted = before.state if state is None else state
            given = {"state": wanted, "payload": fields if known is None else _fields(known, wanted, fields)}
        changed = schedules.change(schedule, who=who, why=why, rhythm=rhythm, instance=instance, **given)
    _say(changed, "changed", as_json)


@app.command()
def enable(ctx: typer.Context, schedule: Name, why: Why, who: Who = "", as_json: AsJson = False) -> None:
    """Let a schedule start its actor again. What was missed is not made up for."""
    _switch(ctx, schedule, True, who, why, as_json)


@app.command()
def disable(ctx: typer.Context, schedule: Name, why: Why, who: Who = "", as_json: AsJson = False) -> None:
    """Let a schedule start nothing until it is enabled."""
    _switch(ctx, schedule, False, who, why, as_json)


@app.command()
def remove(ctx: typer.Context, schedule: Name, why: Why, who: Who = "", as_json: AsJson = False) -> None:
    """Take a schedule away. A run that it has started goes on."""
    with open_runtime(ctx) as runtime:
        runtime.actors.schedules.remove(schedule, who=who, why=why)
    print_done({"name": schedule}, f"removed {schedule}", as_json)


def _numbers(pattern: re.Pattern[str], text: str, option: str, what: str) -> tuple[int, int]:
    found = pattern.fullmatch(text)
    if found is None:
        raise UsageError(f"{option} {text!r} is not {what}")
    return int(found[1]), int(found[2])


def _switch(ctx: typer.Context, schedule: str, is_enabled: bool, who: str, why: str, as_json: bool) -> None:
    with open_runtime(ctx) as runtime:
        has_changed = runtime.actors.schedules.enable(schedule, is_enabled, who=who, why=why)
    text = f"{schedule} {'is' if has_changed else 'was already'} {'enabled' if is_enabled else 'disabled'}"
    print_done({"name": schedule, "is_enabled": is_enabled, "has_changed": has_changed}, text, as_json)


def _fields(known: KnownClass, state: str | None, fields: Any) -> Any:
    """Check the fields now, rather than when the schedule is due."""
    return known.checked(known.state(state)["name"], {} if fields is None else fields)


def _cells(schedule: Schedule, now: datetime) -> list[object]:
    upcoming, last = schedule.next_at, schedule.last_at
    return [
        schedule.name,
        f"{schedule.actor}:{schedule.instance}",
        str(schedule.rhythm),
        "disabled" if upcoming is None else "now" if upcoming <= now else age(upcoming, now),
        None if last is None else age(last, now),
        schedule.outcome,
        None if upcoming is None else short_time(upcoming, now),
        schedule.warning or schedule.skip_reason or schedule.reason,
    ]


def _print(schedule: Schedule, now: datetime) -> None:
    skipped = f"{schedule.skipped} times since then: {schedule.skip_reason}" if schedule.skipped else None
    print_fields(
        [
            ("schedule", schedule.name),
            ("starts", f"{schedule.actor}:{schedule.instance}"),
            ("with", f"{schedule.state or 'its first state'} {to_json(schedule.payload) if schedule.payload else ''}"),
            ("when", schedule.rhythm),
            ("next", "never: it is disabled" if schedule.next_at is None else time_and_age(schedule.next_at, now)),
            ("last", time_and_age(schedule.last_at, now)),
            ("last run", schedule.last_run),
            ("came of it", schedule.outcome if schedule.last_at is not None else None),
            ("because", schedule.reason),
            ("skipped", skipped),
            ("warning", schedule.warning),
        ]
    )


def _say(schedule: Schedule, what: str, as_json: bool) -> None:
    from towpath.operations.actors import schedule_item

    if as_json:
        print_json(schedule_item(schedule))
        return
    upcoming = "it is disabled" if schedule.next_at is None else f"next {schedule.next_at:%Y-%m-%d %H:%M:%S} UTC"
    typer.echo(f"{what} {schedule.name}: starts {schedule.actor}:{schedule.instance} {schedule.rhythm}; {upcoming}")
