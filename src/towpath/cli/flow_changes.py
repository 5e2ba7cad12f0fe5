"""`towpath flow`: steering by hand. Each wish leaves an event with who, what and why.

The process that runs a stage does what is wanted at its next turn; the command waits for that and says what came of it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from towpath.cli.asking import confirm
from towpath.cli.flow import FlowName, StageName
from towpath.cli.given import open_runtime
from towpath.cli.options import AsJson, Who, Why
from towpath.cli.output import print_json

if TYPE_CHECKING:
    from towpath.cli.flow_look import Look
    from towpath.flow.wish import WishKind
    from towpath.runtime import Runtime

app = typer.Typer()

WAIT_S = 15.0
ROUND_S = 0.1

Wait = Annotated[
    float, typer.Option(min=0, metavar="SECONDS", help="How long to wait until the process that runs it has done it.")
]
NEXT_START = "nobody runs it: it will be done at the next start (towpath run)"
MEANS = {
    "earliest": "It begins anew at the first record that each topic still has, with a new checkpoint. Records are "
    "loaded again: an index or a table knows them by their ids and takes them once; topics and files get them twice.",
    "latest": "It goes on with records that come from now on, with a new checkpoint. What was not read yet is never "
    "loaded.",
}


@app.command()
def pause(
    ctx: typer.Context,
    flow: FlowName,
    why: Why,
    stage: StageName = None,
    wait: Wait = WAIT_S,
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Let it rest until somebody says resume, also over a restart. Its process goes on."""
    _ask(ctx, flow, stage, "pause", who, why, wait, as_json)


@app.command()
def resume(
    ctx: typer.Context,
    flow: FlowName,
    why: Why,
    stage: StageName = None,
    wait: Wait = WAIT_S,
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Go on after a pause or a halt. A stage that waits for its next try makes it now."""
    _ask(ctx, flow, stage, "resume", who, why, wait, as_json)


@app.command()
def stop(
    ctx: typer.Context,
    flow: FlowName,
    why: Why,
    stage: StageName = None,
    wait: Wait = WAIT_S,
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """End it after its present batch. Its process ends when none of its stages is left."""
    _ask(ctx, flow, stage, "stop", who, why, wait, as_json)


@app.command()
def reset(
    ctx: typer.Context,
    flow: FlowName,
    why: Why,
    stage: StageName = None,
    to: Annotated[
        Literal["earliest", "latest"], typer.Option(help="Where to go on: what is still there, or what comes next.")
    ] = "earliest",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    wait: Wait = WAIT_S,
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Begin anew from other positions, with a new checkpoint: records may be loaded again, or never."""
    if not yes:
        confirm(f"{MEANS[to]}\nReset {flow}{f'/{stage}' if stage else ''} to {to}?", "nothing was changed")
    _ask(ctx, flow, stage, "reset", who, why, wait, as_json, {"to": to})


def _ask(
    ctx: typer.Context,
    flow: str,
    stage: str | None,
    kind: str,
    who: str,
    why: str,
    wait_s: float,
    as_json: bool,
    arguments: dict[str, Any] | None = None,
) -> None:
    from towpath.cli.flow_look import look_item
    from towpath.flow.wish import WishKind

    with open_runtime(ctx) as runtime:
        before = _asked(runtime, flow, stage, WishKind(kind), who, why, arguments or {})
        pairs = _answered(runtime, before, WishKind(kind), wait_s)
    if as_json:
        items = [{**look_item(look), "is_done": _is_done(WishKind(kind), was, look)} for was, look in pairs]
        print_json({"items": items})
        return
    for was, look in pairs:
        typer.echo(f"{flow}/{look.stage.name}: {_what_came(WishKind(kind), was, look, wait_s)}")


def _asked(
    runtime: Runtime, flow: str, stage: str | None, kind: WishKind, who: str, why: str, arguments: dict[str, Any]
) -> list[Look]:
    """Ask it of every stage in which it is possible; returns these as they were."""
    from towpath.cli.flow_look import looks
    from towpath.errors import IllegalWish
    from towpath.events import Event, EventKind
    from towpath.flow.pilot import PilotState
    from towpath.flow.stage_store import StageStore
    from towpath.flow.wish import POSSIBLE, WishKind, refusal

    found = looks(runtime, flow, stage)
    possible = [look for look in found if look.stage.pilot.state in POSSIBLE[kind]]
    if not possible:
        first = found[0].stage
        if kind is WishKind.RESUME and first.pilot.state is PilotState.STOPPED:
            raise IllegalWish(f"{flow}/{first.name} is stopped: `towpath run` starts it")
        raise refusal(flow, first.name, kind, first.pilot.state)
    if kind is WishKind.STOP and not any(look.is_run for look in possible):
        raise IllegalWish(f"nobody runs {flow}/{possible[0].stage.name}: there is nothing to stop")
    store = StageStore(runtime.database)
    with runtime.database.transaction() as tx:
        for look in possible:
            store.ask(tx, flow, look.stage.name, kind, who, why, arguments)
            data = {"wish": kind, **arguments}
            event = Event(EventKind.FLOW_ASKED_BY_HAND, f"{flow}/{look.stage.name}", who, why, data)
            runtime.event_log.record(tx, event)
    return possible


def _answered(runtime: Runtime, before: list[Look], kind: WishKind, wait_s: float) -> list[tuple[Look, Look]]:
    """The stages as they were and are, when all that are run have done what was wanted, or the time is over."""
    from towpath.cli.flow_look import looks

    deadline = time.monotonic() + wait_s
    while True:
        now = {look.stage.name: look for look in looks(runtime, before[0].stage.flow)}
        pairs = [(was, now[was.stage.name]) for was in before]
        is_open = any(look.is_run and not _is_done(kind, was, look) for was, look in pairs)
        if not is_open or time.monotonic() >= deadline:
            return pairs
        time.sleep(ROUND_S)


def _is_done(kind: WishKind, was: Look, look: Look) -> bool:
    """A stage takes a wish at its next turn, and does it when its present batch is over."""
    from towpath.flow.pilot import PilotState
    from towpath.flow.wish import WishKind

    if look.stage.wish is not None:
        return False
    match kind:
        case WishKind.PAUSE:
            return look.stage.pilot.state is PilotState.PAUSED
        case WishKind.STOP:
            return look.stage.pilot.is_resting
        case WishKind.RESET:
            return look.stage.generation > was.stage.generation
    return True


def _what_came(kind: WishKind, was: Look, look: Look, wait_s: float) -> str:
    if _is_done(kind, was, look):
        moved = "" if was.stage.pilot.state is look.stage.pilot.state else f"; it was {was.stage.pilot.state}"
        generation = look.stage.generation
        anew = f", in generation {generation} now" if generation != was.stage.generation else ""
        return f"done: {look.state}{moved}{anew}"
    if look.is_run:
        return f"asked; {look.stage.owner} has not done it within {wait_s:g} s, and will after its present batch"
    return f"asked; {NEXT_START}"
