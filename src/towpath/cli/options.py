"""Options that several commands share, and how what people type becomes a value.

A group of options is a dataclass whose fields are the options: a command that is `spread` takes it as one parameter,
and Typer sees its fields in that place.
"""

from __future__ import annotations

import getpass
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import wraps
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from towpath.cli.context import UsageError
from towpath.errors import BadValue, Refused

MOST_ROWS = 10_000
DEFAULT_ROWS = 50
NEVER = "never"
_AGE = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


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
TextCursor = Annotated[
    str | None, typer.Option(metavar="CURSOR", help="Go on where a list ended: the cursor that it printed.")
]
Last = Annotated[int, typer.Option(min=0, max=MOST_ROWS, metavar="N", help="Begin with the last N.")]
Why = Annotated[str, typer.Option(callback=_not_blank, help="Why you do this; kept with the change.")]
OptionalWhy = Annotated[str, typer.Option("--why", help="Why you do this; kept with the change.")]
Who = Annotated[
    str,
    typer.Option(callback=_who, show_default=False, help="In whose name; the operating system's user if not given."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
YesOrY = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
ProcessName = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="What people see as this process's name; else as the settings say."),
]

T = TypeVar("T")
State = TypeVar("State", bound=StrEnum)


def operating_user() -> str:
    """The user at the terminal; behind sudo, the person and not root."""
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):
        return f"uid:{os.getuid()}"  # a container's user need not have a name


def spread(command: Callable[..., T]) -> Callable[..., T]:
    """The command with an option for each field of its dataclass parameters."""
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if is_dataclass(hint) and isinstance(hint, type)}

    @wraps(command)
    def called(**given: Any) -> T:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        return command(**given)

    parameters = [
        each for one in inspect.signature(command).parameters.values() for each in _spread(one, groups, hints)
    ]
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in parameters}
    return called


def confirm(question: str, refusal: str) -> None:
    """Ask the person; raise `Refused` with that text if they do not agree, `UsageError` without a terminal."""
    if not sys.stdin.isatty():
        raise UsageError("nobody is there to ask: say --yes")
    try:
        agreed = typer.confirm(question, err=True)
    except typer.Abort:
        raise KeyboardInterrupt from None
    if not agreed:
        raise Refused(refusal)


def parse_state(states: type[State], text: str | None, what: str) -> State | None:
    """The option `--state`; `what` has such a state: "a rule"."""
    if text is None:
        return None
    try:
        return states(text)
    except ValueError:
        raise BadValue(f"--state {text}: {what} is {', '.join(states)}") from None


def read_argument(given: str) -> bytes:
    """An argument as bytes: the text itself, or what `-` (standard input) or `@FILE` holds."""
    if given == "-":
        return sys.stdin.buffer.read()
    if not given.startswith("@"):
        return given.encode()
    try:
        with open(given[1:], "rb") as file:
            return file.read()
    except OSError as error:
        raise UsageError(f"cannot read {given[1:]}: {error.strerror}") from error


def is_age(text: str) -> bool:
    return _AGE.fullmatch(text) is not None


def parse_age_s(text: str, option: str) -> float | str:
    """`90s`, `15m`, `12h`, `7d`, or `never`."""
    if text == NEVER:
        return NEVER
    found = _AGE.fullmatch(text)
    if not found or float(found[1]) == 0:
        raise UsageError(f"{option} {text!r} is not an age such as 90s, 15m, 12h or 7d, or {NEVER}")
    return float(found[1]) * _SECONDS[found[2]]


def parse_time_ms(text: str, option: str, now_ms: int) -> int:
    """An age (`15m`: so long ago), a date or time of ISO 8601 (UTC unless it says otherwise), or milliseconds."""
    if text.isascii() and text.isdigit():
        return int(text)
    if found := _AGE.fullmatch(text):
        return max(0, now_ms - round(float(found[1]) * _SECONDS[found[2]] * 1000))
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{option} {text!r} is not a time such as 2026-01-31T10:00:00Z, 2026-01-31 or 15m (ago)"
        ) from None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0, int(at.timestamp() * 1000))


def age_text(seconds: float | None) -> str:
    """An age as it would be typed."""
    if seconds is None:
        return NEVER
    for unit in ("d", "h", "m"):
        if seconds >= _SECONDS[unit] and seconds % _SECONDS[unit] == 0:
            return f"{seconds / _SECONDS[unit]:g}{unit}"
    return f"{seconds:g}s"


def shown_time(timestamp_ms: int) -> str:
    """A record's time in UTC to the millisecond; a number where no calendar has it."""
    try:
        return f"{datetime.fromtimestamp(timestamp_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}.{timestamp_ms % 1000:03d}"
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)


def _spread(one: inspect.Parameter, groups: dict[str, type], hints: dict[str, Any]) -> Iterator[inspect.Parameter]:
    if one.name not in groups:
        yield one.replace(annotation=hints[one.name], kind=inspect.Parameter.KEYWORD_ONLY)
        return
    annotations = get_type_hints(groups[one.name], include_extras=True)
    for field in fields(groups[one.name]):
        yield inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=_default(field), annotation=annotations[field.name]
        )


def _default(field: Field[Any]) -> Any:
    return inspect.Parameter.empty if field.default is MISSING else field.default
