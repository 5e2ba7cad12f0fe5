"""How a command that fails ends: one line on standard error, and an exit code that scripts can go by."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

import typer

DONE = 0
FAILED = 1
WRONG_USAGE = 2
NOT_REACHABLE = 3
INTERRUPTED = 130  # as a shell reports the end by Ctrl-C
CLOSED_PIPE = 141  # and by a reader that went away

UsageError = typer.BadParameter.__bases__[0]  # Typer's own name for it has moved between versions


def check_words(words: Sequence[str]) -> None:
    """Refuse arguments that no database can hold, before anything is done."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise UsageError(f"{os.fsencode(word)!r} is not UTF-8 text") from None


def tell(error: Exception, debug: bool) -> int:
    """Say what went wrong and return the exit code for it."""
    if isinstance(error, BrokenPipeError):
        return leave_quietly()
    if isinstance(error, UsageError):
        return _tell_usage(error)
    if debug:
        traceback.print_exception(error)
    say(f"error: {_text(error)}")
    return _exit_code(error)


def say(text: str) -> None:
    """One line for the person at the terminal, beside the output proper."""
    from towpath.cli.output import plain
    from towpath.logs import without_password

    typer.echo(plain(without_password(" ".join(text.split()))), err=True)


def _exit_code(error: Exception) -> int:
    from towpath import errors

    if isinstance(error, errors.BadSettings | errors.NotInstalled | errors.LogUnavailable | errors.FetchFailed):
        return NOT_REACHABLE
    if isinstance(error, errors.GatewayAway | errors.ServerAway):
        return NOT_REACHABLE
    if isinstance(error, errors.SinkError) and not isinstance(error, errors.NeedsPerson):
        return NOT_REACHABLE
    if isinstance(error, errors.DatabaseError) and not isinstance(error, errors.CommitUnknown):
        return NOT_REACHABLE
    return FAILED


def _text(error: Exception) -> str:
    from towpath.errors import TowpathError

    if isinstance(error, TowpathError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return f"unexpected {type(error).__name__}: {error} (this is a fault in Towpath; --debug shows the trace)"


def _tell_usage(error: Exception) -> int:
    context = getattr(error, "ctx", None)
    text = error.format_message().replace("Value error, ", "")  # type: ignore[attr-defined]
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(text, err=True)
        return WRONG_USAGE
    if any(f"option: --{name}" in text for name in ("config", "database", "debug", "remote")):
        text = f"{text.rstrip('.')}: this global option stands before the command"
    path = context.command_path if context else "towpath"
    say(f"error: {text.rstrip('.')}. See: {path} --help")
    return WRONG_USAGE


def leave_quietly() -> int:
    """The reader of our output has gone away (`… | head`): nothing to say, and nobody to say it to."""
    # Python would try to write what is left when it ends, and complain.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return CLOSED_PIPE
