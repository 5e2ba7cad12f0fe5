"""`towpath actor`: starts, aborts and switches by hand. Each leaves an event with who, what and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.actor_classes import Name, Target, open_actors, split
from towpath.cli.failures import FAILED, UsageError
from towpath.cli.given import open_runtime
from towpath.cli.options import AsJson, Who, Why
from towpath.cli.output import console, plain, pretty, print_json
from towpath.cli.queue_changes import read_payload
from towpath.exact_json import to_json

if TYPE_CHECKING:
    from towpath.actors.starting import Start
    from towpath.queue import Answer
    from towpath.runtime import Runtime

app = typer.Typer()


@app.command()
def start(
    ctx: typer.Context,
    target: Target,
    why: Why,
    state: Annotated[
        str | None, typer.Option(metavar="STATE", help="With which state; the actor's first if not given.")
    ] = None,
    payload: Annotated[
        str | None,
        typer.Option(
            metavar="JSON",
            help="The fields of the state; `-` reads standard input, `@FILE` a file. `actor template` prints them.",
        ),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="With the state in which the last run failed, and with its fields.")
    ] = False,
    wait: Annotated[
        float | None, typer.Option(min=0, metavar="SECONDS", help="Wait so long for the end of the run.")
    ] = None,
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Start an instance and print the id of its run. With --wait, exit code 1 says that it failed."""
    from towpath.actors.instance import MAIN
    from towpath.actors.known import known_actor, start_again

    if again and (state is not None or payload is not None):
        raise UsageError("--again takes the state and the fields of the last run; say them, or --again")
    name, instance = split(target)
    fields = {} if payload is None else read_payload(payload)
    with open_actors(ctx) as (runtime, known):
        if again:
            failed = runtime.actors.instance(name, instance or MAIN)
            chosen = start_again(runtime.actors.browser(), known.get(name), failed)
        else:
            chosen = known_actor(known, name).start(instance or MAIN, state, fields)
        run = runtime.actors.start_by_hand(chosen, who, why, wants_answer=wait is not None)
        if wait is None:
            _say_started(chosen, run, as_json, with_fields=again)
            return
        answer = _end(runtime, chosen, run, wait)
        is_refused = not answer.is_ok and runtime.queue.browser().message(run).attempts == 0
    _say_end(chosen, run, answer, as_json, is_refused)
    if not answer.is_ok:
        raise typer.Exit(FAILED)


def _end(runtime: Runtime, start: Start, run: str, wait: float) -> Answer:
    from towpath.errors import AnswerTimeout

    try:
        return runtime.queue.outbox("operator").wait(run, wait)
    except AnswerTimeout as error:
        name = f"{start.actor}:{start.instance}"
        raise AnswerTimeout(
            run, f"{name} has not come to its end within {wait:g} s; its run {run} goes on: towpath actor show {name}"
        ) from error


def _say_started(start: Start, run: str, as_json: bool, *, with_fields: bool) -> None:
    if as_json:
        print_json({"run": run, "actor": start.actor, "instance": start.instance, "state": start.function})
        return
    fields = f" and {plain(to_json(start.payload))}" if with_fields else ""
    typer.echo(f"sent {start.actor}:{start.instance} its start, with {start.function}{fields}: run {run}")


def _say_end(start: Start, run: str, answer: Answer, as_json: bool, is_refused: bool) -> None:
    if as_json:
        item = {"state": answer.state, "payload": answer.payload}
        print_json({"run": run, "is_refused": is_refused, "answer": item})
    elif answer.is_ok:
        result = "" if answer.payload is None else f" {pretty(answer.payload)}"
        typer.echo(f"{start.actor}:{start.instance} has ended: run {run}{',' if result else ''}{result}")
    else:
        reason = answer.payload.get("error") if isinstance(answer.payload, dict) else answer.payload
        what = "was not started" if is_refused else f"has failed: run {run}"
        console().print(f"{start.actor}:{start.instance} {what}: {plain(str(reason))}", style="red", soft_wrap=True)


@app.command()
def abort(ctx: typer.Context, target: Target, why: Why, who: Who = "", as_json: AsJson = False) -> None:
    """Let a run fail: at once, or when the state that runs is done. Its clean-up runs."""
    from towpath.actors.instance import MAIN
    from towpath.actors.phase import Phase

    name, instance = split(target)
    with open_runtime(ctx) as runtime:
        runtime.actors.abort(name, instance or MAIN, who=who, why=why)
        found = runtime.actors.instance(name, instance or MAIN)
    if as_json:
        print_json({"name": found.name, "phase": found.phase})
    elif found.phase is Phase.RUNNING and found.abort is not None:
        typer.echo(f"{found.name} runs in {found.step}; it fails when the code that runs is done")
    else:
        typer.echo(f"{found.name} is aborted; what it does at its end is left to do")


@app.command()
def wake(ctx: typer.Context, target: Target, why: Why, who: Who = "", as_json: AsJson = False) -> None:
    """Let an instance that sleeps go on now, and not when its time comes."""
    from towpath.actors.instance import MAIN

    name, instance = split(target)
    with open_runtime(ctx) as runtime:
        found = runtime.actors.wake(name, instance or MAIN, who=who, why=why)
    if as_json:
        print_json({"name": found.name, "phase": found.phase})
    else:
        typer.echo(f"{found.name} is awake: {found.step} is next")


@app.command()
def enable(ctx: typer.Context, actor: Name, why: Why, who: Who = "", as_json: AsJson = False) -> None:
    """Let the instances of an actor run again."""
    _switch(ctx, actor, True, who, why, as_json)


@app.command()
def disable(ctx: typer.Context, actor: Name, why: Why, who: Who = "", as_json: AsJson = False) -> None:
    """Let no state of an actor begin, and refuse its starts. States that run finish; nothing is lost."""
    _switch(ctx, actor, False, who, why, as_json)


def _switch(ctx: typer.Context, actor: str, is_enabled: bool, who: str, why: str, as_json: bool) -> None:
    from towpath.actors.known import known_actor

    with open_actors(ctx) as (runtime, known):
        known_actor(known, actor)
        has_changed = runtime.actors.enable(actor, is_enabled, who=who, why=why)
    if as_json:
        print_json({"actor": actor, "is_enabled": is_enabled, "has_changed": has_changed})
    else:
        typer.echo(f"{actor} {'is' if has_changed else 'was already'} {'enabled' if is_enabled else 'disabled'}")
