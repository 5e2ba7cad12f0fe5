"""`towpath up`, `down` and `deploy`: everything that the settings name, started, kept running, and stopped again."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from towpath.cli.context import FAILED, CliContext, UsageError, open_runtime, say, sqlite_file, working_runtime
from towpath.cli.options import AsJson, OptionalWhy, Who, operating_user
from towpath.cli.output import console, print_json
from towpath.cli.progress import SignalHandler, StopRequest
from towpath.cli.supervision.status import status_lines
from towpath.errors import BadSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from towpath.runtime import Runtime
    from towpath.settings import Settings
    from towpath.supervision.deploy import Deployment
    from towpath.supervision.duties.model import NewDuty
    from towpath.supervision.duties.plan import Installation
    from towpath.supervision.service import Overview
    from towpath.supervision.up import Up, UpOutcome


deploy_app = typer.Typer(help="Write the files with which a machine keeps all of it running.", no_args_is_help=True)

Timeout = Annotated[
    float, typer.Option("--timeout", min=1, metavar="SECONDS", help="How long to wait; what was begun goes on.")
]
Output = Annotated[
    Path | None,
    typer.Option("--output", metavar="FILE", help="Where to; else it is printed. No file is ever overwritten."),
]


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
    why: OptionalWhy = "towpath up",
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Start peers and everything in [up] of the settings, and wait until it is ready. What runs already stays."""
    from towpath.supervision.duties.plan import duties_wanted

    given = ctx.ensure_object(CliContext)
    _check_named(given)
    with working_runtime(given, "up", "up") as runtime:
        wanted = duties_wanted(runtime.settings, place_of(given))
        progress = UpProgress(quiet=as_json)
        if foreground:
            stay_up(runtime, wanted, UpOptions(who, why, timeout_s, progress))
            return
        ended = _up(runtime).up(wanted, who=who, why=why, timeout_s=timeout_s, show=progress.show)
    _tell(ended, as_json, "it is not all up yet; it goes on by itself: towpath status shows it")
    failed = [duty.name for duty in ended.overview.duties if duty.state == "failed"]
    if failed:
        say(f"what {failed[0]} wrote before it ended: towpath process logs {failed[0]}")
    if failed or not ended.is_in_time:
        raise typer.Exit(FAILED)


def down(
    ctx: typer.Context,
    here: Annotated[bool, typer.Option("--here", help="Only what runs on this host.")] = False,
    timeout_s: Timeout = 120.0,
    why: OptionalWhy = "towpath down",
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Stop everything that `towpath up` started, in order: the peers last."""
    from towpath.supervision.peers.socket import this_host

    with open_runtime(ctx) as runtime:
        host = this_host(runtime.settings.supervision) if here else None
        show = UpProgress(quiet=as_json).show
        ended = _up(runtime).down(who=who, why=why, timeout_s=timeout_s, show=show, host=host)
    _tell(ended, as_json, "it is not all down yet; it goes on by itself while a peer is there")
    if not ended.is_in_time:
        raise typer.Exit(FAILED)


@deploy_app.command()
def systemd(
    ctx: typer.Context,
    user: Annotated[
        str | None, typer.Option(metavar="NAME", help="The user that it runs as; the present one if not given.")
    ] = None,
    output: Output = None,
) -> None:
    """A systemd unit that runs `towpath up` when the machine starts, and stops everything in order with it."""
    from towpath.supervision.deploy import systemd_unit

    _write(systemd_unit(_deployment(ctx), user or operating_user()), output)


@deploy_app.command()
def compose(
    ctx: typer.Context,
    image: Annotated[
        str, typer.Option(metavar="IMAGE", help="With the command towpath on its path.")
    ] = "towpath:latest",
    output: Output = None,
) -> None:
    """A Compose file with one container that runs `towpath up`."""
    from towpath.supervision.deploy import compose_file

    _write(compose_file(_deployment(ctx, is_contained=True), image), output)


@dataclass(frozen=True)
class UpOptions:
    """In whose name and why things are started and stopped, and how long that may take."""

    who: str
    why: str
    timeout_s: float
    progress: UpProgress

    @property
    def common(self) -> dict[str, Any]:
        """What `Up.up` and `Up.down` both take."""
        return {"who": self.who, "timeout_s": self.timeout_s, "show": self.progress.show}


def stay_up(
    runtime: Runtime, duties: list[NewDuty], options: UpOptions, on_up: Callable[[Overview], None] = lambda found: None
) -> None:
    """Stay until SIGTERM or Ctrl-C, then stop this host's processes. `on_up` is called when all is ready."""
    from towpath.supervision.peers.socket import this_host

    work, wish, host = _up(runtime), StopRequest(), this_host(runtime.settings.supervision)
    with SignalHandler(run=wish):
        ended = work.up(duties, why=options.why, is_told=wish.is_set, **options.common)
        if not wish.is_set():
            on_up(ended.overview)
            say(f"stays until Ctrl-C, which stops what runs on {host}")
        work.stay(wish.is_set)
        work.down(why="towpath up was told to stop", host=host, **options.common)


class UpProgress:
    """Reports each change of a duty's state."""

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


def place_of(given: CliContext) -> Installation:
    """Where and with which options processes start, so that they get the settings of this command."""
    from towpath.settings import directory_of, file_of, sqlite_from
    from towpath.supervision.duties.plan import Installation

    file = file_of(given.config)
    # Not as options, which everybody on the machine can read: an address of a database may hold a password.
    url = None if given.database is None else sqlite_from(given.database, Path.cwd())
    database = {} if url is None else {"TOWPATH_DATABASE__URL": url}
    return Installation(directory_of(given.config), () if file is None else ("--config", str(file)), database)


def _check_named(given: CliContext) -> None:
    """Refuse to create a database where nothing is named and nothing has run: it is the wrong directory."""
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
    """Whether anything runs with this database, or should. Never creates one."""
    from towpath.runtime import Runtime

    file = sqlite_file(settings)
    if file is not None and not file.exists():
        return False
    with Runtime(settings) as runtime:
        return any(duty.is_wanted or duty.is_running for duty in runtime.duties.overview().duties)


def _up(runtime: Runtime) -> Up:
    from towpath.supervision.up import Up

    return Up(runtime.duties, runtime.steward, runtime.process().id, runtime.settings.process.lease_s)


def _tell(ended: UpOutcome, as_json: bool, late: str) -> None:
    if as_json:
        from towpath.operations.processes import overview_item

        print_json(overview_item(ended.overview))
        return
    for line in status_lines(ended.overview):
        console().print(line, soft_wrap=True)
    if not ended.is_in_time:
        say(late)


def _deployment(ctx: typer.Context, *, is_contained: bool = False) -> Deployment:
    from towpath.supervision.deploy import Deployment

    given = ctx.ensure_object(CliContext)
    if given.database is not None:
        raise UsageError("--database is not written to files, for it may hold a password: put it into the settings")
    loaded = given.settings()
    if not loaded.up:
        say("nothing is to run besides the peers: there is no [up.NAME] in the settings")
    place = place_of(given)
    # An image has a Towpath of its own; the directory of the settings it sees under the same name.
    command = ("towpath", *place.options) if is_contained else place.command()
    return Deployment(loaded.supervision.cluster, command, place.directory, loaded.process.grace_s)


def _write(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(text)
        return
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise UsageError(f"--output {output}: that file is there already; it is not overwritten") from error
    except OSError as error:
        raise UsageError(f"--output {output}: {error.strerror}") from error
    say(f"written: {output}")
