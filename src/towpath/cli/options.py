"""Options that several commands share."""

from __future__ import annotations

import getpass
import os
from typing import Annotated

import typer

MOST_ROWS = 10_000
DEFAULT_ROWS = 50


def operating_user() -> str:
    """Who is at the terminal; behind sudo, the person and not root."""
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):
        return f"uid:{os.getuid()}"  # a container's user need not have a name


def _not_blank(text: str) -> str:
    if not text.strip():
        raise typer.BadParameter("must not be blank")
    return text


def _who(text: str) -> str:
    return _not_blank(text) if text else operating_user()


AsJson = Annotated[bool, typer.Option("--json", help="For programs: JSON in place of a table.")]
Limit = Annotated[int, typer.Option(min=1, max=MOST_ROWS, metavar="N", help="How many to show.")]
Before = Annotated[
    int | None, typer.Option(min=1, metavar="CURSOR", help="Go on where a list ended: the cursor that it printed.")
]
Last = Annotated[int, typer.Option(min=0, max=MOST_ROWS, metavar="N", help="Begin with the last N.")]
Why = Annotated[str, typer.Option(callback=_not_blank, help="Why you do this; kept with the change.")]
Who = Annotated[
    str,
    typer.Option(
        callback=_who,
        show_default=False,
        help="In whose name; the operating system's user if not given.",
    ),
]
MessageId = Annotated[str, typer.Argument(metavar="MESSAGE", show_default=False, help="The message's id.")]
