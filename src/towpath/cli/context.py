"""What every command shares: its global options, the runtime that follows from them, and how it ends.

A command that fails prints one line on standard error and returns an exit code that scripts can rely on.
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

from towpath import errors
from towpath.cli.output import plain

if TYPE_CHECKING:
    from towpath.runtime import Runtime
    from towpath.settings import LoggingSettings, Settings


DONE = 0
FAILED = 1
WRONG_USAGE = 2
NOT_REACHABLE = 3
INTERRUPTED = 130  # as a shell reports the end by Ctrl-C
CLOSED_PIPE = 141  # and by a reader that went away

UsageError = typer.BadParameter.__bases__[0]  # Typer's own name for it has moved between versions

_AWAY = (
    *(errors.BadSettings, errors.NotInstalled, errors.LogUnavailable),
    *(errors.FetchFailed, errors.GatewayAway, errors.ServerAway),
)


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

    def settings(self, **sections: dict[str, Any]) -> Settings:
        """`sections` overrule the settings file, as the options of a command do."""
        from towpath import settings

        return settings.load(self.flags() | sections, self.config)

    def working_settings(self, name: str | None) -> Settings:
        """Settings of a long-running process, under this name if one is given. Also configures its log."""
        from towpath.core import logs

        loaded = self.settings() if name is None else self.settings(process={"name": name})
        logs.configure(self.log_settings(loaded))
        return loaded

    def log_settings(self, loaded: Settings) -> LoggingSettings:
        """A command reports on the terminal, so its log is quieter than that of an unattended process."""
        is_quiet = loaded.logging.level in ("debug", "info") and not self.debug
        return loaded.logging.model_copy(update={"level": "warning"}) if is_quiet else loaded.logging


@contextmanager
def open_runtime(ctx: typer.Context) -> Iterator[Runtime]:
    """The runtime of a command that looks or changes something. It never creates a database."""
    from towpath.core import logs
    from towpath.runtime import Runtime
    from towpath.settings import SQLITE_PREFIX

    given = ctx.ensure_object(CliContext)
    settings = given.settings()
    logs.configure(given.log_settings(settings))
    file = sqlite_file(settings)
    if file is not None and file.parent.is_dir() and not file.exists():
        raise errors.DatabaseUnavailable(
            f"{SQLITE_PREFIX}{file.absolute()}: there is no database yet; a program that connects makes it, or type: "
            "towpath schema upgrade"
        )
    with Runtime(settings) as runtime:
        yield runtime


@contextmanager
def working_runtime(given: CliContext, name: str | None, kind: str) -> Iterator[Runtime]:
    """The runtime of a long-running process. It creates its database if there is none."""
    from towpath.runtime import Runtime

    with Runtime(given.working_settings(name), kind=kind) as runtime:
        yield runtime


def sqlite_file(settings: Settings) -> Path | None:
    """The file of the database; None when the database is on a server."""
    from towpath.settings import SQLITE_PREFIX

    url = settings.database.url
    return Path(url.removeprefix(SQLITE_PREFIX)).expanduser() if url.startswith(SQLITE_PREFIX) else None


def say(text: str) -> None:
    """Print one line for the person at the terminal, on standard error."""
    from towpath.core.logs import without_password

    typer.echo(plain(without_password(" ".join(text.split()))), err=True)


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


def leave_quietly() -> int:
    """End without a message when the reader of our output has gone away (`… | head`)."""
    # Python would try to write what is left when it ends, and complain.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return CLOSED_PIPE


def _exit_code(error: Exception) -> int:
    is_away = (
        isinstance(error, _AWAY)
        or (isinstance(error, errors.SinkError) and not isinstance(error, errors.NeedsPerson))
        or (isinstance(error, errors.DatabaseError) and not isinstance(error, errors.CommitUnknown))
    )
    return NOT_REACHABLE if is_away else FAILED


def _text(error: Exception) -> str:
    if isinstance(error, errors.TowpathError):
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
