"""Asking the person at the terminal before something that cannot be taken back."""

from __future__ import annotations

import sys

import typer

from towpath.cli.failures import UsageError


def confirm(question: str, refusal: str) -> None:
    """Go on when the person agrees; `Refused` with that text otherwise. Without a terminal there is nobody to ask."""
    from towpath.errors import Refused

    if not sys.stdin.isatty():
        raise UsageError("nobody is there to ask: say --yes")
    try:
        agreed = typer.confirm(question, err=True)
    except typer.Abort:
        raise KeyboardInterrupt from None
    if not agreed:
        raise Refused(refusal)
