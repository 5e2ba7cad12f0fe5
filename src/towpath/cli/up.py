"""`towpath up` and `towpath down`: everything that the settings name, started and kept running, and stopped again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from towpath.cli.failures import FAILED, say
from towpath.cli.given import Given, open_runtime, sqlite_file, working_runtime
from towpath.cli.options import AsJson, Who
from towpath.cli.output import console, print_json
from towpath.cli.status_view import status_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from towpath.runtime import Runtime
    from towpath.settings import Settings
    from towpath.supervision.duties_wanted import Place
    from towpath.supervision.duty import Wanted
    from towpath.supervision.duty_desk import Overview
    from towpath.supervision.up import Ended, Up

Timeout = Annotated[
    float, typer.Option("--timeout", min=1, metavar="SECONDS", help="How long to wait; what was begun goes on.")
]
Reason = Annotated[str, typer.Option("--why", help="Why you do this; kept with the change.")]


def up(
    ctx: typer.Context,
    foreground: Annotated[
        bool,
        typer.Option(
            "--foreground",
            help="Stay, start peers again should all be gone, and stop this host's processes at the end.",
        ),
    ] = False,
    timeout_s: Timeout = 300.0,
    why: Reason = "towpath up",
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Start peers and everything in [up] of the settings, and wait until it is ready. What runs already stays."""
    from towpath.supervision.duties_wanted import duties_wanted

    given = ctx.ensure_object(Given)
    _check_named(given)
    with working_runtime(given, "up", "up") as runtime:
        wanted = duties_wanted(runtime.settings, place_of(given))
        progress = Progress(quiet=as_json)
        if foreground:
            stay_up(runtime, wanted, Said(who, why, timeout_s, progress))
            return
        ended = _up(runtime).up(wanted, who=who, why=why, timeout_s=timeout_s, show=progress.show)
    _tell(ended, as_json, "it is not all up yet; it goes on by itself: towpath status shows it")
    failed = [duty.name for duty in ended.overview.duties if duty.state == "failed"]
    if failed:
        say(f"what {failed[0]} wrote before it ended: towpath process logs {failed[0]}")
    if failed or not ended.is_in_time:
        raise typer.Exit(FAILED)


def _check_named(given: Given) -> None:
    """Where nothing is named and nothing was started before, nothing is made: it is the wrong directory."""
    from towpath.errors import BadSettings
    from towpath.settings import FILE_NAME, file_of

    settings = given.settings()
    if settings.up or file_of(given.config) is not None:
        return
    if not _has_duties(settings):
        raise BadSettings(
            f"there is nothing to start: no {FILE_NAME} in {Path.cwd()}, and nothing in [up]; change to the directory "
            "of the settings, or name their file with --config"
        )


def _has_duties(settings: Settings) -> bool:
    """Whether something runs by this database, or should; a look never makes one."""
    from towpath.runtime import Runtime

    file = sqlite_file(settings)
    if file is not None and not file.exists():
        return False
    with Runtime(settings) as runtime:
        return any(duty.is_wanted or duty.is_running for duty in runtime.duties.overview().duties)


@dataclass(frozen=True)
class Said:
    """What a command was told."""

    who: str
    why: str
    timeout_s: float
    progress: Progress

    @property
    def options(self) -> dict[str, Any]:
        return {"who": self.who, "timeout_s": self.timeout_s, "show": self.progress.show}


def stay_up(
    runtime: Runtime, duties: list[Wanted], said: Said, on_up: Callable[[Overview], None] = lambda found: None
) -> None:
    """Until SIGTERM or Ctrl-C; then this host's processes are stopped. `on_up` is called when everything is there."""
    from towpath.cli.flow_stop import EndWish, Stopping
    from towpath.supervision.host import this_host

    work, wish, host = _up(runtime), EndWish(), this_host(runtime.settings.supervision)
    with Stopping(lambda: None) as stopping:
        stopping.of(wish)
        ended = work.up(duties, why=said.why, is_told=wish.is_set, **said.options)
        if not wish.is_set():
            on_up(ended.overview)
            say(f"stays until Ctrl-C, which stops what runs on {host}")
        work.stay(wish.is_set)
        work.down(why="towpath up was told to stop", host=host, **said.options)


def down(
    ctx: typer.Context,
    here: Annotated[bool, typer.Option("--here", help="Only what runs on this host.")] = False,
    timeout_s: Timeout = 120.0,
    why: Reason = "towpath down",
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Stop everything that `towpath up` started, in order: the peers last."""
    from towpath.supervision.host import this_host

    with open_runtime(ctx) as runtime:
        host = this_host(runtime.settings.supervision) if here else None
        show = Progress(quiet=as_json).show
        ended = _up(runtime).down(who=who, why=why, timeout_s=timeout_s, show=show, host=host)
    _tell(ended, as_json, "it is not all down yet; it goes on by itself while a peer is there")
    if not ended.is_in_time:
        raise typer.Exit(FAILED)


def place_of(given: Given) -> Place:
    """How processes are to be called so that they have the settings of this command."""
    from towpath.settings import directory_of, file_of, sqlite_from
    from towpath.supervision.duties_wanted import Place

    file = file_of(given.config)
    # Not as options, which everybody on the machine can read: an address of a database may hold a password.
    url = None if given.database is None else sqlite_from(given.database, Path.cwd())
    database = {} if url is None else {"TOWPATH_DATABASE__URL": url}
    return Place(directory_of(given.config), () if file is None else ("--config", str(file)), database)


def _up(runtime: Runtime) -> Up:
    from towpath.supervision.up import Up

    return Up(runtime.duties, runtime.steward, runtime.process().id, runtime.settings.process.lease_s)


def _tell(ended: Ended, as_json: bool, late: str) -> None:
    if as_json:
        from towpath.supervision.duty_json import overview_item

        print_json(overview_item(ended.overview))
        return
    for line in status_lines(ended.overview):
        console().print(line, soft_wrap=True)
    if not ended.is_in_time:
        say(late)


class Progress:
    """Says what has changed since it looked last."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._said: dict[str, tuple[str, int]] = {}

    def show(self, found: Overview) -> None:
        for duty in found.duties:
            now = duty.state.value, duty.launch
            if self._said.get(duty.name, now) != now and not self._quiet:
                trouble = f": {duty.trouble}" if duty.trouble else ""
                say(f"{duty.name} is {duty.state}{trouble}")
            self._said[duty.name] = now
