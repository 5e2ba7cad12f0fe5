"""`towpath demo --serve`: all of it under supervision, with traffic, and a console to look at it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from towpath.cli.demo_directory import demo_directory
from towpath.cli.failures import say
from towpath.cli.given import Given, working_runtime
from towpath.cli.up import Progress, Said, place_of, stay_up

if TYPE_CHECKING:
    from towpath.runtime import Runtime

START_S = 300.0
# Whatever the variables of this shell say: the demo has a database and a log of its own.
_OWN = ("TOWPATH_DATABASE__", "TOWPATH_LOG__", "TOWPATH_API__", "TOWPATH_UP")


def serve_demo(given: Given, keep: Path | None, port: int) -> None:
    """Until Ctrl-C; then everything is stopped. Without `keep` nothing is left of it."""
    from towpath.demo.serving import write_served
    from towpath.supervision.duties_wanted import duties_wanted

    for name in [name for name in os.environ if name.startswith(_OWN)]:
        del os.environ[name]
    with demo_directory(keep) as directory:
        served = Given(write_served(directory, port), debug=given.debug)
        say("starting Spark, the shop's flow, the desk, two workflows, the console and some traffic; takes a minute …")
        with working_runtime(served, "up", "up") as runtime:
            wanted = duties_wanted(runtime.settings, place_of(served))
            said = Said("demo", "towpath demo --serve", START_S, Progress(quiet=False))
            stay_up(runtime, wanted, said, lambda _: _invite(runtime, directory))
    if keep is None:
        shutil.rmtree(directory, ignore_errors=True)
    else:
        say(f"it goes on where it was with: towpath --config {directory}/towpath.toml up")


def _invite(runtime: Runtime, directory: Path) -> None:
    """Where to look. Whoever has chosen a password in an earlier run logs in with it."""
    address = f"http://127.0.0.1:{runtime.settings.api.port}"
    secret = runtime.access.sessions.first_link()
    typer.echo(f"\nthe console is at {address}")
    if secret is not None:
        typer.echo(f"choose the password of admin, once, at\n  {address}/welcome/{secret}")
    typer.echo(f"its flow is {directory}/shop.py; kill whatever process you like\n")
