"""How long to wait between one try and the next: the same each time, growing, or a list.

constant("5m", times=4)                                 5, 5, 5 and 5 minutes
linear("5m", times=4)                                   5, 10, 15 and 20 minutes
exponential("1m", factor=2, times=6, maximum="1h")      1, 2, 4, 8, 16 and 32 minutes
delays(["5s", "1m"])                                    5 seconds, then a minute
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self

from towpath.errors import BadPolicy

Duration = str | float | timedelta

SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
LONGEST_S = 366 * 86400.0
MOST_TIMES = 100
_TEXT = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")


def seconds(duration: Duration, what: str = "a duration") -> float:
    """The number of seconds, to the millisecond."""
    match duration:
        case timedelta():
            found = duration.total_seconds()
        case bool():
            raise BadPolicy(f'{what} is written as "30s", "5m", "1h" or "1d", not {duration!r}')
        case int() | float():
            found = float(duration)
        case str() if (read := _TEXT.fullmatch(duration.strip())) is not None:
            found = float(read[1]) * SECONDS[read[2]]
        case _:
            raise BadPolicy(f'{what} is written as "30s", "5m", "1h" or "1d", not {duration!r}')
    if not math.isfinite(found) or not 0 <= found <= LONGEST_S:
        raise BadPolicy(f"{what} is from 0 to 366 days, not {duration!r}")
    return round(found, 3)


def spelled(duration_s: float) -> str:
    """The shortest way to write it: `90s`, `5m`."""
    ms = round(duration_s * 1000)
    for unit in ("d", "h", "m", "s"):
        whole = round(SECONDS[unit] * 1000)
        if ms and ms % whole == 0:
            return f"{ms // whole}{unit}"
    return f"{ms}ms"


@dataclass(frozen=True, slots=True)
class Delays:
    """The waits before the first, second … repeat, in seconds; and how they were said."""

    kind: str
    waits_s: tuple[float, ...]
    said: tuple[tuple[str, Any], ...] = ()  # the arguments, as JSON has them

    @property
    def times(self) -> int:
        return len(self.waits_s)

    def before(self, repeat: int) -> float | None:
        """How long to wait before that repeat, counted from 1; None when there is none of that number."""
        return self.waits_s[repeat - 1] if 1 <= repeat <= self.times else None

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, **dict(self.said)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Raises `BadPolicy` for what is none."""
        rest = dict(stored)
        kind = rest.pop("kind", None)
        maker = _MAKERS.get(kind) if isinstance(kind, str) else None
        if maker is None:
            raise BadPolicy(f"delays are {', '.join(_MAKERS)}, not {kind!r}")
        try:
            made = maker(**rest)
        except TypeError as error:
            raise BadPolicy(f"{kind} delays: {error}") from error
        return cls(made.kind, made.waits_s, made.said)


def constant(delay: Duration, *, times: int) -> Delays:
    """The same wait each time."""
    wait = seconds(delay, "the delay")
    return _made("constant", [wait] * _checked(times), delay=spelled(wait), times=times)


def linear(delay: Duration, *, times: int) -> Delays:
    """Once the delay, then twice, three times …"""
    first = seconds(delay, "the delay")
    waits = [first * number for number in range(1, _checked(times) + 1)]
    return _made("linear", waits, delay=spelled(first), times=times)


def exponential(delay: Duration, *, factor: float = 2, times: int, maximum: Duration | None = None) -> Delays:
    """Each wait is the one before times the factor, up to a maximum."""
    first = seconds(delay, "the delay")
    if type(factor) not in (int, float) or not 1 <= factor <= 100:
        raise BadPolicy(f"the factor of exponential delays is from 1 to 100, not {factor!r}")
    most = LONGEST_S if maximum is None else seconds(maximum, "the maximum")
    if most < first:
        raise BadPolicy(f"the maximum ({maximum}) is shorter than the first delay ({delay})")
    waits = [min(first * factor**number, most) for number in range(_checked(times))]
    said = {"delay": spelled(first), "factor": factor, "times": times}
    return _made("exponential", waits, **said, **({} if maximum is None else {"maximum": spelled(most)}))


def delays(delays: Sequence[Duration]) -> Delays:
    """These, one after the other."""
    if isinstance(delays, str) or not isinstance(delays, Sequence):
        raise BadPolicy(f'delays are a list, such as ["5s", "1m"], not {delays!r}')
    waits = [seconds(each, "a delay") for each in delays]
    _checked(len(waits))
    return _made("delays", waits, delays=[spelled(wait) for wait in waits])


def _checked(times: int) -> int:
    if type(times) is not int or not 1 <= times <= MOST_TIMES:
        raise BadPolicy(f"times is from 1 to {MOST_TIMES}, not {times!r}")
    return times


def _made(kind: str, waits: Sequence[float], **said: Any) -> Delays:
    if max(waits) > LONGEST_S:
        raise BadPolicy(f"the longest delay would be {max(waits) / 86400:.0f} days; the most is 366: give a maximum")
    return Delays(kind, tuple(round(wait, 3) for wait in waits), tuple(said.items()))


_MAKERS: Mapping[str, Callable[..., Delays]] = {
    "constant": constant,
    "linear": linear,
    "exponential": exponential,
    "delays": delays,
}
