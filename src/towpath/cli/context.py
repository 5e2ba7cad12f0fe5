"""What the global options said, and the runtime that follows from it.

How a command that fails ends: one line on standard error, and an exit code that scripts can go by.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from towpath.runtime import Runtime
    from towpath.settings import LoggingSettings, Settings


@dataclass
class CliContext:
    """The global options of one command."""

    config: Path | None = None
    database: str | None = None
    debug: bool = False
    remote: str | None = None  # the server that runs the command, in place of a database
    key_file: Path | None = None
    ca_file: Path | None = None
    plain_http: bool = False

    def flags(self) -> dict[str, Any]:
        """The settings that were given on the command line."""
        return {} if self.database is None else {"database": {"url": self.database}}

    def settings(self) -> Settings:
        from towpath import settings

        return settings.load(self.flags(), self.config)

    def working_settings(self, name: str | None) -> Settings:
        """Those of a process that works under this name, if one is given; its log is set up by them."""
        from towpath import settings
        from towpath.core import logs

        flags = self.flags() | ({"process": {"name": name}} if name is not None else {})
        loaded = settings.load(flags, self.config)
        logs.configure(self.log_settings(loaded))
        return loaded

    def log_settings(self, loaded: Settings) -> LoggingSettings:
        """A command says by itself what it did; the log is for processes that nobody watches."""
        is_quiet = loaded.logging.level in ("debug", "info") and not self.debug
        return loaded.logging.model_copy(update={"level": "warning"}) if is_quiet else loaded.logging


@contextmanager
def working_runtime(given: CliContext, name: str | None, kind: str) -> Iterator[Runtime]:
    """The runtime of a process that works: it makes its database."""
    from towpath.runtime import Runtime

    with Runtime(given.working_settings(name), kind=kind) as runtime:
        yield runtime


@contextmanager
def open_runtime(ctx: typer.Context) -> Iterator[Runtime]:
    """Towpath as this command's options and settings say. A look at a database never makes one."""
    from towpath.core import logs
    from towpath.errors import DatabaseUnavailable
    from towpath.runtime import Runtime
    from towpath.settings import SQLITE_PREFIX

    given = ctx.ensure_object(CliContext)
    settings = given.settings()
    logs.configure(given.log_settings(settings))
    file = sqlite_file(settings)
    if file is not None and file.parent.is_dir() and not file.exists():
        raise DatabaseUnavailable(
            f"{SQLITE_PREFIX}{file.absolute()}: there is no database yet; a program that connects makes it, or type: "
            "towpath schema upgrade"
        )
    with Runtime(settings) as runtime:
        yield runtime


def sqlite_file(settings: Settings) -> Path | None:
    """The database's file; none when it is on a server."""
    from towpath.db.open import SQLITE_PREFIX as open_SQLITE_PREFIX

    url = settings.database.url
    return Path(url.removeprefix(open_SQLITE_PREFIX)).expanduser() if url.startswith(open_SQLITE_PREFIX) else None


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
    from towpath.core.logs import without_password

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
