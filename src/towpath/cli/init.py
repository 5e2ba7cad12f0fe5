"""`towpath init`: a small project that runs at once."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.failures import UsageError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

TEMPLATE = "template"
ENDING = ".txt"  # so that no tool takes the files for part of Towpath
HIDDEN = {"gitignore": ".gitignore"}
DEFAULT_NAME = "first-flow"


def init(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", show_default=False, help="Where to; it is made if it is not there.")
    ],
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The name of the flow; that of the directory if not given.")
    ] = None,
) -> None:
    """Make a project: a flow that runs, its test, a few records to try it with. No file is ever overwritten."""
    chosen = name if name is not None else _name_of(directory)
    _check_name(chosen)
    files = {directory / file: text.replace("@name@", chosen) for file, text in _template().items()}
    _write(directory, files)
    typer.echo(f"made the flow {chosen}:")
    for path in files:
        typer.echo(f"  {path}")
    typer.echo(f"\nREADME.md says what to type next, in its directory:\n  cd {shlex.quote(str(directory))}")


def _template() -> dict[str, str]:
    from importlib import resources

    found: list[Traversable] = [
        each for each in (resources.files("towpath.cli") / TEMPLATE).iterdir() if each.name.endswith(ENDING)
    ]
    named = {each.name.removesuffix(ENDING): each.read_text(encoding="utf-8") for each in found}
    return {HIDDEN.get(name, name): named[name] for name in sorted(named)}


def _name_of(directory: Path) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", directory.resolve().name).strip("-_")[:80] or DEFAULT_NAME


def _check_name(name: str) -> None:
    from towpath.flow.flow import NAME

    if not NAME.fullmatch(name):
        raise UsageError(f"--name {name!r}: a flow is named with letters, digits, - and _, 80 at most")


def _write(directory: Path, files: dict[Path, str]) -> None:
    from towpath.errors import Refused

    taken = [str(path) for path in files if path.exists() or path.is_symlink()]
    if taken:
        raise Refused(f"nothing was written, since this is there already: {', '.join(taken)}")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise UsageError(f"cannot write {error.filename or directory}: {error.strerror}") from error
