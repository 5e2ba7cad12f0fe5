"""What the global options said, and the runtime that follows from it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from towpath.runtime import Runtime
    from towpath.settings import LoggingSettings, Settings


@dataclass
class Given:
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
        from towpath import logs, settings

        flags = self.flags() | ({"process": {"name": name}} if name is not None else {})
        loaded = settings.load(flags, self.config)
        logs.configure(self.log_settings(loaded))
        return loaded

    def log_settings(self, loaded: Settings) -> LoggingSettings:
        """A command says by itself what it did; the log is for processes that nobody watches."""
        is_quiet = loaded.logging.level in ("debug", "info") and not self.debug
        return loaded.logging.model_copy(update={"level": "warning"}) if is_quiet else loaded.logging


@contextmanager
def working_runtime(given: Given, name: str | None, kind: str) -> Iterator[Runtime]:
    """The runtime of a process that works: it makes its database."""
    from towpath.runtime import Runtime

    with Runtime(given.working_settings(name), kind=kind) as runtime:
        yield runtime


@contextmanager
def open_runtime(ctx: typer.Context) -> Iterator[Runtime]:
    """Towpath as this command's options and settings say. A look at a database never makes one."""
    from towpath import logs
    from towpath.errors import DatabaseUnavailable
    from towpath.runtime import Runtime
    from towpath.settings import SQLITE_PREFIX

    given = ctx.ensure_object(Given)
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
    from towpath.db.open import SQLITE_PREFIX

    url = settings.database.url
    return Path(url.removeprefix(SQLITE_PREFIX)).expanduser() if url.startswith(SQLITE_PREFIX) else None
