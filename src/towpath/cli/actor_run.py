"""`towpath actor run`: the actors of modules in this process, until it is stopped."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.failures import FAILED, UsageError, say
from towpath.cli.given import Given, working_runtime
from towpath.cli.options import AsJson

if TYPE_CHECKING:
    from towpath.actors.discovery import Found
    from towpath.actors.host import Host
    from towpath.cli.actor_lines import Lines
    from towpath.cli.flow_stop import EndWish, Stopping
    from towpath.runtime import Runtime

app = typer.Typer()

LOOK_S = 0.1
HEARD_S = 0.01  # until a host that is told to stop has heard of it
IDLE_S = 5.0  # who is due within this time is waited for
SETTLED_S = 0.5  # so long nothing was to do
STOP_S = 30.0  # for the database, beyond the grace period


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
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="What people see as this process's name; else as the settings say."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run actors and show what they do. Ctrl-C lets the states that run finish; typed again, it leaves at once."""
    from towpath.cli.actor_lines import Lines
    from towpath.cli.flow_stop import EndWish, Stopping

    given = ctx.ensure_object(Given)
    found = _found(given, modules or [])
    with working_runtime(given, name, "actors") as runtime:
        runtime.actors.register(*(each.cls for each in found.values()))
        host, lines, wanted = runtime.actors.host(), Lines(as_json), EndWish()
        host.listen(lines.on_done)
        runtime.events.subscribe(lines.on_event)
        # Who leaves at once is found dead by its lease: until then nobody runs what its threads may still be at.
        with Stopping(lambda: None, runtime.settings.process.grace_s) as stopping:
            stopping.of(wanted)
            host.start()
            runtime.process().ready(f"runs {', '.join(found)}")
            say(f"runs {', '.join(found)} as process {runtime.process().id}; Ctrl-C lets what runs finish")
            try:
                _watch(runtime, list(found) if until_idle else [], lines, wanted)
            except BrokenPipeError:  # nobody reads what is shown
                host.stop(runtime.settings.actors.grace_s + STOP_S)
                raise
            _stop(runtime, host, lines, stopping)


def _found(given: Given, modules: list[str]) -> dict[str, Found]:
    from towpath.actors.discovery import discover
    from towpath.settings import directory_of

    if modules:
        return discover(modules, Path.cwd())
    configured = given.settings().actors.modules
    if not configured:
        raise UsageError("say which modules or files have the actors, or name them in actors.modules of towpath.toml")
    return discover(configured, directory_of(given.config))


def _watch(runtime: Runtime, until_idle: list[str], lines: Lines, wanted: EndWish) -> None:
    """Show what happens until the end is wished for, or until these actors are idle."""
    busy_at = time.monotonic()
    while not wanted.wait(LOOK_S):
        lines.show()
        if until_idle and _is_busy(runtime, until_idle):
            busy_at = time.monotonic()
        elif until_idle and time.monotonic() - busy_at > SETTLED_S:
            return


def _is_busy(runtime: Runtime, actors: list[str]) -> bool:
    from towpath.errors import DatabaseError

    try:
        disabled = {each.name for each in runtime.actors.known() if not each.is_enabled}
        enabled = [runtime.actors.definition(each) for each in actors if each not in disabled]
        return runtime.actors.browser().is_busy(enabled, IDLE_S)
    except DatabaseError:
        return True  # the host says itself that it is away


def _stop(runtime: Runtime, host: Host, lines: Lines, stopping: Stopping) -> None:
    """Let the states finish that run; what does not within the grace period is left, and the process with it."""
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
