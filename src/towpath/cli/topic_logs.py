"""Which log a command is about, and opening it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.failures import UsageError
from towpath.cli.given import open_runtime

if TYPE_CHECKING:
    from towpath.log import Log
    from towpath.runtime import Runtime
    from towpath.settings import LogSettings

# A person waits for the answer; the time of the settings is for processes, which have to outlast a restart.
LOOK_TIMEOUT_S = 10.0
FORMS = "`embedded`, `sqlite:///path` or `kafka://host:port`"

TopicName = Annotated[str, typer.Argument(metavar="TOPIC", show_default=False, help="The topic's name.")]
LogUrl = Annotated[
    str | None, typer.Option("--log", metavar="URL", help=f"Another log than that of the settings: {FORMS}.")
]


@contextmanager
def open_topics(
    ctx: typer.Context, url: str | None = None, *, look: bool = True, makes: bool = False
) -> Iterator[tuple[Runtime, Log]]:
    """The runtime, and the log of the settings or the one at `url`."""
    with open_runtime(ctx) as runtime, open_one(runtime, url, look=look, makes=makes) as log:
        yield runtime, log


@contextmanager
def open_one(
    runtime: Runtime, url: str | None, *, option: str = "--log", look: bool = False, makes: bool = False
) -> Iterator[Log]:
    """A log; a `look` is not patient with a broker, and only what `makes` something may make a file."""
    from towpath.log import open_log

    settings = settings_for(runtime.settings.log, url, option)
    if look:
        settings = settings.model_copy(update={"timeout_s": min(settings.timeout_s, LOOK_TIMEOUT_S)})
    if not makes:
        _check_file(settings.url)
    log = open_log(settings, runtime.database)
    try:
        yield log
    finally:
        log.close()


def settings_for(settings: LogSettings, url: str | None, option: str) -> LogSettings:
    """The settings with another place."""
    from pydantic import ValidationError

    from towpath.settings import LogSettings

    if url is None:
        return settings
    try:
        return LogSettings(**{**settings.model_dump(), "url": url})
    except ValidationError as error:
        raise UsageError(f"{option} {url!r} is not {FORMS.replace('`', '')}") from error


def _check_file(url: str) -> None:
    """A look at a log never makes one."""
    from towpath.db.open import SQLITE_PREFIX
    from towpath.errors import LogUnavailable

    if url.startswith(SQLITE_PREFIX) and not Path(url.removeprefix(SQLITE_PREFIX)).expanduser().exists():
        raise LogUnavailable(f"{url}: there is no log yet; type: towpath topic create")
