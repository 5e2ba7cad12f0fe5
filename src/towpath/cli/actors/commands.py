"""`towpath actor`: looking at actors and their instances, drawing and running them, starting and stopping them by hand.

A command knows actors by the code of the configured modules and by what processes have written down. Each change
leaves an event with who, what and why.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.context import FAILED, CliContext, UsageError, open_runtime, say, working_runtime
from towpath.cli.options import DEFAULT_ROWS, AsJson, Limit, ProcessName, TextCursor, Who, Why
from towpath.cli.output import console, cut, plain, pretty, print_done, print_json
from towpath.cli.progress import SignalHandler, StopRequest
from towpath.cli.queue.commands import read_payload
from towpath.core.clock import to_datetime
from towpath.core.exact_json import Exact, to_json
from towpath.errors import AnswerTimeout, DatabaseError, DatabaseUnavailable, UnknownActor

if TYPE_CHECKING:
    from towpath.actors.engine.host import Host
    from towpath.actors.instance import Phase
    from towpath.actors.registry import DiscoveredActor, KnownClass
    from towpath.actors.turn import ActorStart
    from towpath.cli.actors.views import ActorEventLines
    from towpath.queue import Answer
    from towpath.runtime import Runtime


app = typer.Typer(help="Run actors, look at them, start and stop them by hand.", no_args_is_help=True)

HISTORY = 20
LOOK_S = 0.1
HEARD_S = 0.01  # until a host that is told to stop has heard of it
IDLE_S = 5.0  # instances that are due within this time are waited for
SETTLED_S = 0.5  # idle means nothing to do for this long
STOP_S = 30.0  # for the database, beyond the grace period

Name = Annotated[str, typer.Argument(metavar="ACTOR", show_default=False, help="The actor's name.")]
Target = Annotated[
    str,
    typer.Argument(
        metavar="ACTOR[:INSTANCE]", show_default=False, help="The actor's name, and which instance; `main` if not said."
    ),
]


@app.command("list")
def list_(
    ctx: typer.Context,
    actor: Annotated[
        str | None, typer.Argument(metavar="[ACTOR]", show_default=False, help="The instances of this one.")
    ] = None,
    instances: Annotated[bool, typer.Option("--instances", help="The instances of all actors.")] = False,
    phase: Annotated[
        str | None,
        typer.Option(
            metavar="PHASE",
            help="Only instances that are idle, ready, running, sleeping, waiting, ended or failed.",
        ),
    ] = None,
    limit: Limit = DEFAULT_ROWS,
    after: TextCursor = None,
    as_json: AsJson = False,
) -> None:
    """Actors, with how many instances each has in which phase; or instances, by name."""
    from towpath.cli.actors.views import print_classes
    from towpath.operations.actors import class_item

    if actor is not None or instances or phase is not None or after is not None:
        _list_instances(ctx, actor, phase, limit, after, as_json)
        return
    with open_actors(ctx) as (runtime, known):
        counts = runtime.actors.browser().counts()
    if as_json:
        print_json({"items": [class_item(each, counts.get(each.name, {})) for each in known.values()]})
        return
    print_classes(known.values(), counts)
    if not known:
        console().print("none is known; actors.modules in towpath.toml names the modules that have some", style="dim")


@app.command()
def show(
    ctx: typer.Context,
    target: Target,
    last: Annotated[
        int, typer.Option(min=0, max=10_000, metavar="N", help="How many messages of its history.")
    ] = HISTORY,
    as_json: AsJson = False,
) -> None:
    """One actor or instance: what it is, does and waits for, its fields, what it did before, why it failed."""
    from towpath.actors.instance import MAIN
    from towpath.actors.registry import known_actor
    from towpath.cli.actors.views import print_class, print_look
    from towpath.operations.actors import class_item, look_item

    name, instance = split(target)
    with open_actors(ctx) as (runtime, known):
        one = runtime.actors.look(name, instance or MAIN, last=last)
        if one is None and (instance is not None or name not in known):
            known_actor(known, name)
            runtime.actors.instance(name, instance or MAIN)  # says that there is none
        counts = runtime.actors.browser().counts().get(name, {})
        now = to_datetime(runtime.database.now())
    cls = known.get(name)
    if as_json:
        described = None if cls is None else {**class_item(cls, counts), "shape": cls.shape}
        print_json({"actor": described, "instance": None if one is None else look_item(one, cls, Exact)})
        return
    if cls is not None and (one is None or instance is None):
        print_class(cls, counts)
    if one is not None:
        if cls is not None and instance is None:
            typer.echo()
        print_look(one, cls, now)


@app.command()
def graph(
    ctx: typer.Context,
    actor: Name,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As a chart for mermaid, in place of a list.")] = False,
    svg: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write it as a picture; `-` is standard output.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Draw the states of an actor and the moves between them, as its code has them. Nothing is run."""
    from towpath.actors.graph import render

    if mermaid + as_json + (svg is not None) > 1:
        raise UsageError("--mermaid, --svg and --json: only one of them")
    known = look_at_class(ctx, actor)
    if as_json:
        print_json({"actor": known.name, "about": known.about, **known.shape})
    elif mermaid:
        typer.echo(render.mermaid(known.shape))
    elif svg is None:
        typer.echo("\n".join(map(plain, render.lines(known.name, known.about, known.shape))))
    elif svg == "-":
        typer.echo(render.svg(known.name, known.about, known.shape), nl=False)
    else:
        write(Path(svg), render.svg(known.name, known.about, known.shape))


@app.command()
def template(
    ctx: typer.Context,
    actor: Name,
    state: Annotated[
        str | None, typer.Option(metavar="STATE", help="Of this state; the actor's first if not given.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """The JSON that a start needs: the fields of a state, to be filled in. `--payload -` of `actor start` reads it."""
    known = look_at_class(ctx, actor)
    wanted = known.state(state)
    text = pretty(wanted["template"])
    print_done({"actor": known.name, "state": wanted["name"], "template": wanted["template"]}, text, as_json)


@app.command()
def run(
    ctx: typer.Context,
    modules: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODULE]...",
            show_default=False,
            help="Modules or .py files with actors; those of the setting actors.modules if not given.",
        ),
    ] = None,
    until_idle: Annotated[
        bool,
        typer.Option(
            "--until-idle",
            help=f"End when nothing runs and nothing is due within {IDLE_S:g} s; who waits or watches is left.",
        ),
    ] = False,
    name: ProcessName = None,
    as_json: AsJson = False,
) -> None:
    """Run actors and show what they do. Ctrl-C lets the states that run finish; typed again, it leaves at once."""
    from towpath.cli.actors.views import ActorEventLines

    given = ctx.ensure_object(CliContext)
    found = _discovered(given, modules or [])
    with working_runtime(given, name, "actors") as runtime:
        runtime.actors.register(*(each.cls for each in found.values()))
        host, lines, wanted = runtime.actors.host(), ActorEventLines(as_json), StopRequest()
        host.listen(lines.on_done)
        runtime.events.subscribe(lines.on_event)
        # Who leaves at once is found dead by its lease: until then nobody runs what its threads may still be at.
        with SignalHandler(grace_s=runtime.settings.process.grace_s, run=wanted) as stopping:
            host.start()
            runtime.process().ready(f"runs {', '.join(found)}")
            say(f"runs {', '.join(found)} as process {runtime.process().id}; Ctrl-C lets what runs finish")
            try:
                _watch(runtime, list(found) if until_idle else [], lines, wanted)
            except BrokenPipeError:  # nobody reads what is shown
                host.stop(runtime.settings.actors.grace_s + STOP_S)
                raise
            _stop(runtime, host, lines, stopping)


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
    from towpath.actors.registry import known_actor, start_again

    if again and (state is not None or payload is not None):
        raise UsageError("--again takes the state and the fields of the last run; say them, or --again")
    name, instance = split(target)
    fields = {} if payload is None else read_payload(payload)
    with open_actors(ctx, registers=True) as (runtime, known):
        if again:
            failed = runtime.actors.instance(name, instance or MAIN)
            chosen = start_again(runtime.actors.browser(), known.get(name), failed)
        else:
            chosen = known_actor(known, name).start(instance or MAIN, state, fields)
        run = runtime.actors.start_by_hand(chosen, who, why, wants_answer=wait is not None)
        if wait is None:
            _say_started(chosen, run, as_json, with_fields=again)
            return
        answer = _wait_for_end(runtime, chosen, run, wait)
        is_refused = not answer.is_ok and runtime.queue.browser().message(run).attempts == 0
    _say_end(chosen, run, answer, as_json, is_refused)
    if not answer.is_ok:
        raise typer.Exit(FAILED)


@app.command()
def abort(ctx: typer.Context, target: Target, why: Why, who: Who = "", as_json: AsJson = False) -> None:
    """Let a run fail: at once, or when the state that runs is done. Its clean-up runs."""
    from towpath.actors.instance import MAIN, Phase

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
    print_done({"name": found.name, "phase": found.phase}, f"{found.name} is awake: {found.step} is next", as_json)


@app.command()
def enable(ctx: typer.Context, actor: Name, why: Why, who: Who = "", as_json: AsJson = False) -> None:
    """Let the instances of an actor run again."""
    _switch(ctx, actor, True, who, why, as_json)


@app.command()
def disable(ctx: typer.Context, actor: Name, why: Why, who: Who = "", as_json: AsJson = False) -> None:
    """Let no state of an actor begin, and refuse its starts. States that run finish; nothing is lost."""
    _switch(ctx, actor, False, who, why, as_json)


def split(target: str) -> tuple[str, str | None]:
    """Split ACTOR[:INSTANCE] into its two names."""
    actor, sign, instance = target.partition(":")
    if not actor or (sign and not instance):
        raise UsageError(f"{target!r} is not ACTOR or ACTOR:INSTANCE")
    return actor, instance or None


def parse_phase(text: str | None) -> Phase | None:
    """The option `--phase`."""
    from towpath.actors.instance import Phase

    if text is not None and text not in tuple(Phase):
        raise UsageError(f"--phase {text!r}: an instance is {', '.join(Phase)}")
    return None if text is None else Phase(text)


def found_here(ctx: typer.Context) -> dict[str, DiscoveredActor]:
    """The actors of the configured modules. A broken module gives a warning and does not hide the others."""
    from towpath.actors.registry import found_in
    from towpath.settings import directory_of

    given = ctx.ensure_object(CliContext)
    found, broken = found_in(given.settings().actors.modules, directory_of(given.config))
    for each in broken:
        say(f"warning: {each.error}")
    return found


def look_at_class(ctx: typer.Context, name: str) -> KnownClass:
    """One actor class. No database is needed when its code is in the configured modules."""
    from towpath.actors.graph.shape import shape_of
    from towpath.actors.registry import KnownClass, known_actor, known_actors

    found = found_here(ctx)
    if name in found:
        definition = found[name].definition
        return KnownClass(name, definition.about, shape_of(definition), definition=definition)
    try:
        with open_runtime(ctx) as runtime:
            return known_actor(known_actors(runtime.actors.known(), found), name)
    except DatabaseUnavailable as error:
        raise UnknownActor(
            f"no actor {name!r} is in the modules that actors.modules in towpath.toml names, and nothing more is known "
            f"without a database: {error}"
        ) from error


@contextmanager
def open_actors(ctx: typer.Context, *, registers: bool = False) -> Iterator[tuple[Runtime, dict[str, KnownClass]]]:
    """A runtime and all known actors; `registers` also those that no process has run yet."""
    from towpath.actors.registry import known_actors, new_classes

    found = found_here(ctx)
    with open_runtime(ctx) as runtime:
        if registers:
            runtime.actors.register(*new_classes(runtime.actors.known(), found))
        yield runtime, known_actors(runtime.actors.known(), found)


def write(path: Path, text: str) -> None:
    """Write a file, and say so."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    typer.echo(f"wrote {path}")


def _list_instances(
    ctx: typer.Context, actor: str | None, phase: str | None, limit: int, after: str | None, as_json: bool
) -> None:
    from towpath.cli.actors.views import print_instances
    from towpath.operations.actors import instance_item
    from towpath.queue.payload import ACTORS

    wanted = parse_phase(phase)
    with open_runtime(ctx) as runtime:
        if actor is not None:
            _check_has_any(ctx, runtime, actor)
        found = runtime.actors.instances(
            actor=actor,
            phase=wanted,
            after="" if after is None else f"{ACTORS}{after}",
            limit=limit + 1,
        )
        now = to_datetime(runtime.database.now())
    page, cursor = cut(found, limit, attrgetter("name"))
    if as_json:
        print_json({"items": [instance_item(each) for each in page], "next": cursor})
    else:
        print_instances(page, now, cursor)


def _check_has_any(ctx: typer.Context, runtime: Runtime, actor: str) -> None:
    """Raise an error for an unknown actor; an empty list would hide a wrong name."""
    from towpath.actors.registry import known_actor, known_actors

    if not runtime.actors.instances(actor=actor, limit=1):
        known_actor(known_actors(runtime.actors.known(), found_here(ctx)), actor)


def _discovered(given: CliContext, modules: list[str]) -> dict[str, DiscoveredActor]:
    from towpath.actors.registry import discover
    from towpath.settings import directory_of

    if modules:
        return discover(modules, Path.cwd())
    configured = given.settings().actors.modules
    if not configured:
        raise UsageError("say which modules or files have the actors, or name them in actors.modules of towpath.toml")
    return discover(configured, directory_of(given.config))


def _watch(runtime: Runtime, until_idle: list[str], lines: ActorEventLines, wanted: StopRequest) -> None:
    """Show what happens until a stop is requested, or until these actors are idle."""
    busy_at = time.monotonic()
    while not wanted.wait(LOOK_S):
        lines.show()
        if until_idle and _is_busy(runtime, until_idle):
            busy_at = time.monotonic()
        elif until_idle and time.monotonic() - busy_at > SETTLED_S:
            return


def _is_busy(runtime: Runtime, actors: list[str]) -> bool:
    try:
        disabled = {each.name for each in runtime.actors.known() if not each.is_enabled}
        enabled = [runtime.actors.definition(each) for each in actors if each not in disabled]
        return runtime.actors.browser().is_busy(enabled, IDLE_S)
    except DatabaseError:
        return True  # the host says itself that it is away


def _stop(runtime: Runtime, host: Host, lines: ActorEventLines, stopping: SignalHandler) -> None:
    """Let running states finish. After the grace period the process leaves, with what still runs."""
    stopper = threading.Thread(
        target=host.stop, args=(runtime.settings.actors.grace_s + STOP_S,), name="stopper", daemon=True
    )
    stopper.start()
    while stopper.is_alive() and not host.is_stopping:
        stopper.join(HEARD_S)
    if stopping.news() and (count := len(host.running)):  # said when it holds: none of them goes on to its next state
        say(f"stopping: {count} states run; they have {runtime.settings.actors.grace_s:g} s to finish")
    while stopper.is_alive():
        stopper.join(LOOK_S)
        lines.show()
    lines.show_end()
    if host.left:
        say(f"left while {', '.join(each.name for each in host.left)} ran; others do what those states declare")
        with contextlib.suppress(BrokenPipeError):
            sys.stdout.flush()
        os._exit(FAILED)  # an orderly end would call this process stopped while that code still runs


def _wait_for_end(runtime: Runtime, start: ActorStart, run: str, wait: float) -> Answer:
    try:
        return runtime.queue.outbox("operator").wait(run, wait)
    except AnswerTimeout as error:
        name = f"{start.actor}:{start.instance}"
        raise AnswerTimeout(
            run, f"{name} has not come to its end within {wait:g} s; its run {run} goes on: towpath actor show {name}"
        ) from error


def _say_started(start: ActorStart, run: str, as_json: bool, *, with_fields: bool) -> None:
    if as_json:
        print_json({"run": run, "actor": start.actor, "instance": start.instance, "state": start.function})
        return
    fields = f" and {plain(to_json(start.payload))}" if with_fields else ""
    typer.echo(f"sent {start.actor}:{start.instance} its start, with {start.function}{fields}: run {run}")


def _say_end(start: ActorStart, run: str, answer: Answer, as_json: bool, is_refused: bool) -> None:
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


def _switch(ctx: typer.Context, actor: str, is_enabled: bool, who: str, why: str, as_json: bool) -> None:
    from towpath.actors.registry import known_actor

    with open_actors(ctx, registers=True) as (runtime, known):
        known_actor(known, actor)
        has_changed = runtime.actors.enable(actor, is_enabled, who=who, why=why)
    text = f"{actor} {'is' if has_changed else 'was already'} {'enabled' if is_enabled else 'disabled'}"
    print_done({"actor": actor, "is_enabled": is_enabled, "has_changed": has_changed}, text, as_json)
