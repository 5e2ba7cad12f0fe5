"""`towpath deploy`: files with which a machine keeps `towpath up` running."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.failures import UsageError, say
from towpath.cli.given import Given
from towpath.cli.options import operating_user
from towpath.cli.up import place_of

if TYPE_CHECKING:
    from towpath.supervision.deploy import Deployment

app = typer.Typer(help="Write the files with which a machine keeps all of it running.", no_args_is_help=True)

Output = Annotated[
    Path | None,
    typer.Option("--output", metavar="FILE", help="Where to; else it is printed. No file is ever overwritten."),
]


@app.command()
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


@app.command()
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


def _deployment(ctx: typer.Context, *, is_contained: bool = False) -> Deployment:
    from towpath import settings
    from towpath.supervision.deploy import Deployment

    given = ctx.ensure_object(Given)
    if given.database is not None:
        raise UsageError("--database is not written to files, for it may hold a password: put it into the settings")
    loaded = settings.load(given.flags(), given.config)
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
