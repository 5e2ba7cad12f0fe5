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
    from towpath.flow.look import Look
    from towpath.flow.wish import WishKind
    from towpath.runtime import Runtime

app = typer.Typer()

WAIT_S = 15.0
ROUND_S = 0.1

Wait = Annotated[
    float, typer.Option(min=0, metavar="SECONDS", help="How long to wait until the process that runs it has done it.")
]
NEXT_START = "nobody runs it: it will be done at the next start (towpath run)"


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
    from towpath.flow.reset_ahead import MEANS

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
    from towpath.flow.flow_json import stage_item
    from towpath.flow.steering import Steering, is_done
    from towpath.flow.wish import WishKind

    wish = WishKind(kind)
    with open_runtime(ctx) as runtime:
        steering = Steering(runtime.database, runtime.event_log)
        before = steering.ask(flow, wish, who=who, why=why, stage=stage, arguments=arguments)
        pairs = _answered(runtime, before, wish, wait_s)
    if as_json:
        print_json({"items": [{**stage_item(look), "is_done": is_done(wish, was, look)} for was, look in pairs]})
        return
    for was, look in pairs:
        typer.echo(f"{flow}/{look.stage.name}: {_what_came(wish, was, look, wait_s)}")


def _answered(runtime: Runtime, before: list[Look], kind: WishKind, wait_s: float) -> list[tuple[Look, Look]]:
    """The stages as they were and are, when all that are run have done what was wanted, or the time is over."""
    from towpath.flow.look import looks
    from towpath.flow.steering import is_done

    deadline = time.monotonic() + wait_s
    while True:
        now = {look.stage.name: look for look in looks(runtime.database, before[0].stage.flow)}
        pairs = [(was, now[was.stage.name]) for was in before]
        is_open = any(look.is_run and not is_done(kind, was, look) for was, look in pairs)
        if not is_open or time.monotonic() >= deadline:
            return pairs
        time.sleep(ROUND_S)


def _what_came(kind: WishKind, was: Look, look: Look, wait_s: float) -> str:
    from towpath.flow.steering import is_done

    if is_done(kind, was, look):
        moved = "" if was.stage.pilot.state is look.stage.pilot.state else f"; it was {was.stage.pilot.state}"
        generation = look.stage.generation
        anew = f", in generation {generation} now" if generation != was.stage.generation else ""
        return f"done: {look.state}{moved}{anew}"
    if look.is_run:
        return f"asked; {look.stage.owner} has not done it within {wait_s:g} s, and will after its present batch"
    return f"asked; {NEXT_START}"
