"""`towpath stack`: real servers on this machine, without Docker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.context import FAILED, CliContext, UsageError, say
from towpath.cli.options import AsJson, YesOrY
from towpath.cli.output import Column, print_json, print_table
from towpath.errors import TowpathError
from towpath.stack.model import ServerName, ServerState

if TYPE_CHECKING:
    from towpath.stack.stack import Stack, Status


app = typer.Typer(help="Real servers on this machine, without Docker: start, see, stop them.", no_args_is_help=True)

CHOICES = ", ".join(ServerName)
MOST_PORT = 65535

_COLUMNS = (
    Column("server", whole=True),
    Column("state", whole=True),
    Column("address", whole=True),
    Column("pid", whole=True),
    Column("version", whole=True, from_width=80),
    Column("data", from_width=100),
)

Names = Annotated[
    list[ServerName] | None,
    typer.Argument(
        metavar="[SERVER]...", show_default=False, help=f"Which: {CHOICES}; all that are here if not given."
    ),
]


@app.command()
def up(
    ctx: typer.Context,
    names: Annotated[
        list[ServerName] | None, typer.Argument(metavar="[SERVER]...", show_default=False, help=f"Which: {CHOICES}.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    port: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SERVER=N",
            help="The port of a server, 0 for any free one; otherwise the one that it had, at first a free one. "
            "May be given several times.",
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, max=64, metavar="N", help="How many workers Spark has; at first 1.")
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Write the settings to towpath.stack.toml, for --config.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Start servers and wait until they answer. Fetches what is not there yet, once. They run until `down`."""
    from towpath.cli.stack_views import StartDisplay, check_settings_file, print_settings, write_settings_file

    wanted = list(ServerName) if all_ else list(dict.fromkeys(names or []))
    if not wanted:
        raise UsageError(f"say which servers to start ({CHOICES}), or --all")
    ports = _ports(port or [], wanted)
    if write:
        check_settings_file(Path.cwd())
    stack = _stack(ctx)
    with StartDisplay() as display:
        stack.up(wanted, ports, workers, display)
    faults = _Faults()
    found = _look(stack, stack.there(), faults)
    if write:
        write_settings_file(Path.cwd(), found)
    _print(found, as_json)
    if not as_json:
        print_settings([it for it in found if it.name in wanted], Path.cwd() if write else None)
    faults.tell()


@app.command()
def status(ctx: typer.Context, names: Names = None, as_json: AsJson = False) -> None:
    """How the servers are. Exit code 1 when one that is named does not answer."""
    stack = _stack(ctx)
    wanted = names or stack.there()
    if not wanted and not as_json:
        typer.echo(f"no server was started here yet; type: towpath stack up {ServerName.KAFKA} (or {CHOICES})")
        return
    faults = _Faults()
    found = _look(stack, wanted, faults)
    if found or as_json:
        _print(found, as_json)
    faults.tell()
    if names and any(it.state is not ServerState.RUNNING for it in found):
        raise typer.Exit(FAILED)


@app.command()
def logs(
    ctx: typer.Context,
    names: Names = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, metavar="N", help="Begin with the last N lines.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as lines are written, until Ctrl-C.")] = False,
) -> None:
    """What the servers have written."""
    from towpath.cli.stack_views import show_logs

    stack = _stack(ctx)
    faults = _Faults()
    files: list[tuple[str, Path]] = []
    for name in names or stack.there():
        with faults.of_one():
            files += [(name, path) for path in stack.logs(name)]
    if not files:
        faults.tell()
    show_logs(files, lines, follow)
    faults.tell()


@app.command()
def down(ctx: typer.Context, names: Names = None) -> None:
    """Stop servers. Their data stay."""
    from towpath.cli.stack_views import StartDisplay

    stack, faults = _stack(ctx), _Faults()
    with StartDisplay() as display:
        for name in names or stack.there():
            with faults.of_one():
                was_running = stack.down(name, display)
                typer.echo(f"{name} {'is stopped' if was_running else 'did not run'}")
    faults.tell()


@app.command()
def reset(
    ctx: typer.Context,
    names: Names = None,
    yes: YesOrY = False,
) -> None:
    """Stop servers and delete their data."""
    from towpath.cli.stack_views import StartDisplay

    stack = _stack(ctx)
    here = stack.there()
    wanted = [name for name in names or here if name in here]
    if not wanted:
        typer.echo("there is nothing to delete")
        return
    if not yes and not _agreed(f"Stop {', '.join(wanted)} and delete all their data?"):
        typer.echo("nothing was changed")
        return
    with StartDisplay() as display:
        for name in wanted:
            stack.reset(name, display)
            typer.echo(f"{name} is stopped and its data are deleted")


class _Faults:
    """Collects the errors of single servers and reports them at the end, so that the others go on."""

    def __init__(self) -> None:
        self._errors: list[TowpathError] = []

    @contextmanager
    def of_one(self) -> Iterator[None]:
        try:
            yield
        except TowpathError as error:
            self._errors.append(error)

    def tell(self) -> None:
        for error in self._errors[:-1]:
            say(f"error: {error}")
        if self._errors:
            raise self._errors[-1]


def _look(stack: Stack, names: Sequence[ServerName], faults: _Faults) -> list[Status]:
    found = []
    for name in names:
        with faults.of_one():
            found.append(stack.status(name))
    return found


def _stack(ctx: typer.Context) -> Stack:
    from towpath.stack.stack import Stack

    settings = ctx.ensure_object(CliContext).settings()
    return Stack(Path(settings.stack.directory), settings.spark.java_home)


def _agreed(question: str) -> bool:
    try:
        return typer.confirm(question)
    except typer.Abort:
        raise UsageError("there is nobody to ask; to delete without asking, say --yes") from None


def _ports(words: Sequence[str], wanted: Sequence[ServerName]) -> dict[ServerName, int]:
    ports = {}
    for word in words:
        name, _, number = word.partition("=")
        if name not in wanted:
            raise UsageError(f"--port {word}: say SERVER=N, with a server that is to be started ({', '.join(wanted)})")
        if not number.isdecimal() or int(number) > MOST_PORT:
            raise UsageError(f"--port {word}: the port is a number from 0 (any free one) to {MOST_PORT}")
        ports[ServerName(name)] = int(number)
    return ports


def _print(found: Sequence[Status], as_json: bool) -> None:
    if as_json:
        print_json({"items": [_item(it) for it in found]})
        return
    print_table(
        _COLUMNS,
        [
            [it.name, it.state, it.url, " ".join(map(str, it.pids)), it.version, it.data_dir and _short(it.data_dir)]
            for it in found
        ],
    )


def _item(it: Status) -> dict[str, object]:
    return {
        "name": it.name,
        "state": it.state,
        "url": it.url,
        "pids": list(it.pids),
        "version": it.version,
        "data_dir": str(it.data_dir) if it.data_dir else None,
        "settings": it.settings or {},
    }


def _short(path: Path) -> str:
    """The path as one would type it from here."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
