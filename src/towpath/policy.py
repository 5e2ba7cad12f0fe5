"""What a flow may say about its errors, and how long it waits between one try and the next.

flow.on_error(repeat_after(exponential("1m", times=6, maximum="1h")), code=9, exception="Timeout")
flow.on_error(ignore(approved_by="Ann Lee", until="2027-01-31"), step="priced", where="value.country = 'DE'")

The first rule that fits an error decides; without one it is isolated: a case for a person.

constant("5m", times=4)                                 5, 5, 5 and 5 minutes
linear("5m", times=4)                                   5, 10, 15 and 20 minutes
exponential("1m", factor=2, times=6, maximum="1h")      1, 2, 4, 8, 16 and 32 minutes
delays(["5s", "1m"])                                    5 seconds, then a minute
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Self

from towpath.core.clock import parse_date_or_time
from towpath.core.expression import Expression
from towpath.errors import BadPolicy

Duration = str | float | timedelta

SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
LONGEST_S = 366 * 86400.0
MOST_TIMES = 100
MOST_REPEATS = 1000
MOST_FIELDS = 50
LONGEST_NAME = 200
_TEXT = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")


@dataclass(frozen=True, slots=True)
class Isolate:
    """A case for a person."""

    kind = "isolate"

    def to_json(self) -> dict[str, Any]:
        return {"policy": self.kind}


@dataclass(frozen=True, slots=True)
class Ignore:
    """Counted and kept, but shown to nobody, until a time; a named person has approved that."""

    approved_by: str
    until: datetime

    kind = "ignore"

    def is_over(self, now: datetime) -> bool:
        return now >= self.until

    def to_json(self) -> dict[str, Any]:
        return {"policy": self.kind, "approved_by": self.approved_by, "until": self.until.isoformat()}


Then = Isolate | Ignore  # what comes after the last try


@dataclass(frozen=True, slots=True)
class Delays:
    """The waits before the first, second … repeat, in seconds; and how they were written."""

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
        """The delays that `to_json` has written; raises `BadPolicy` for anything else."""
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


@dataclass(frozen=True, slots=True)
class Repeat:
    """Again at once, so many times."""

    times: int
    then: Then = Isolate()

    kind = "repeat"

    def before(self, repeat: int) -> float | None:
        """How long to wait before that repeat, counted from 1; None when there is none of that number."""
        return 0.0 if repeat <= self.times else None

    def to_json(self) -> dict[str, Any]:
        return {"policy": self.kind, "times": self.times, "then": self.then.to_json()}


@dataclass(frozen=True, slots=True)
class RepeatAfter:
    """Again after waiting in a lane."""

    delays: Delays
    jitter_s: float = 0.0
    then: Then = Isolate()

    kind = "repeat_after"

    def before(self, repeat: int) -> float | None:
        """How long to wait before that repeat, counted from 1; None when there is none of that number."""
        return self.delays.before(repeat)

    def to_json(self) -> dict[str, Any]:
        said = {"policy": self.kind, "delays": self.delays.to_json(), "then": self.then.to_json()}
        return said | ({"jitter": spelled(self.jitter_s)} if self.jitter_s else {})


Fallback = Isolate | Ignore | Repeat | RepeatAfter


@dataclass(frozen=True, slots=True)
class Correct:
    """A learned correction, if there is one that is sure enough; otherwise, and when it fails again, `then`."""

    then: Fallback = Isolate()

    kind = "correct"

    def to_json(self) -> dict[str, Any]:
        return {"policy": self.kind, "then": self.then.to_json()}


@dataclass(frozen=True, slots=True)
class Salvage:
    """Loaded without these fields, once; when it fails again, `then`."""

    fields: tuple[str, ...]
    then: Fallback = Isolate()

    kind = "salvage"

    def to_json(self) -> dict[str, Any]:
        return {"policy": self.kind, "fields": list(self.fields), "then": self.then.to_json()}


Policy = Isolate | Ignore | Repeat | RepeatAfter | Correct | Salvage
Said = Policy | Callable[[], Isolate]


def isolate() -> Isolate:
    """A case for a person: what happens when nothing is said."""
    return Isolate()


def ignore(*, approved_by: str, until: str | date | datetime) -> Ignore:
    """Show it to nobody until that time; a date counts to its end, in UTC. Then it is isolated again."""
    name = approved_by.strip() if _is_text(approved_by) else ""
    if not 0 < len(name) <= LONGEST_NAME:
        raise BadPolicy('ignore needs the person who approved it: approved_by="Ann Lee"')
    return Ignore(name, _end(until))


def repeat(times: int, *, then: Said = isolate) -> Repeat:
    """Again at once, up to so many times."""
    if type(times) is not int or not 1 <= times <= MOST_REPEATS:
        raise BadPolicy(f"repeat({times!r}): from 1 to {MOST_REPEATS} times")
    return Repeat(times, _then(then))


def repeat_after(waits: Delays, *, jitter: Duration = 0, then: Said = isolate) -> RepeatAfter:
    """Again after waiting: `constant`, `linear`, `exponential` or `delays` say how long.

    `jitter` is the time over which what is due is spread, so that not all of it comes back at once.
    """
    if not isinstance(waits, Delays):
        raise BadPolicy(f'repeat_after needs delays, such as constant("5m", times=4), not {waits!r}')
    return RepeatAfter(waits, seconds(jitter, "jitter"), _then(then))


def correct(*, then: Said = isolate) -> Correct:
    """Apply a learned correction that a person has turned on."""
    return Correct(_fallback(then))


def salvage(*fields: str, then: Said = isolate) -> Salvage:
    """Load the record without these fields (paths such as `customer.phone`), marked with what was left out."""
    if not fields or len(fields) > MOST_FIELDS:
        raise BadPolicy(f'salvage needs 1 to {MOST_FIELDS} fields to leave out: salvage("phone")')
    for each in fields:
        if not _is_text(each) or not all(each.split(".")):
            raise BadPolicy(f"salvage: {each!r} is not a field; write a path such as customer.phone")
    return Salvage(tuple(fields), _fallback(then))


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


def described(policy: Policy) -> str:
    """A policy in a few words: `repeat after 1m, 2m, 4m, then isolate`."""
    match policy:
        case Ignore(approved_by, until):
            return f"ignore until {until:%Y-%m-%d %H:%M}, approved by {approved_by}"
        case Repeat(times, then):
            return f"repeat {times} times, then {then.kind}"
        case RepeatAfter(waits, jitter_s, then):
            spread = f" with up to {spelled(jitter_s)} more" if jitter_s else ""
            return f"repeat after {', '.join(map(spelled, waits.waits_s))}{spread}, then {then.kind}"
        case Salvage(fields, then):
            return f"salvage without {', '.join(fields)}, then {then.kind}"
        case other:
            return other.kind


@dataclass(frozen=True, slots=True)
class Match:
    """The errors that a rule is about: every condition must fit."""

    step: str | None = None
    code: int | None = None
    exception: str | None = None
    where: Expression | None = None

    @classmethod
    def of(
        cls,
        step: str | None = None,
        code: int | None = None,
        exception: str | type[BaseException] | None = None,
        where: str | None = None,
    ) -> Self:
        """Checked conditions; raises `BadPolicy` for one that no error can meet."""
        if isinstance(exception, type):
            exception = exception.__qualname__
        for name, text in (("step", step), ("exception", exception)):
            if text is not None and not (_is_text(text) and text):
                raise BadPolicy(f"{name}= is a name, not {text!r}")
        if code is not None and (type(code) is not int or not 0 <= code <= 13):
            raise BadPolicy(f"code= is one of the error codes, 0 to 13, not {code!r}")
        if where is not None and not _is_text(where):
            raise BadPolicy(f"where= is an expression in text, not {where!r}")
        return cls(step, code, exception, None if where is None else Expression.parse(where))

    def to_json(self) -> dict[str, Any]:
        where = None if self.where is None else self.where.text
        said = {"step": self.step, "code": self.code, "exception": self.exception, "where": where}
        return {name: value for name, value in said.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: what is done about which errors."""

    policy: Policy
    match: Match = field(default_factory=Match)

    @classmethod
    def of(cls, policy: Said, **match: Any) -> Self:
        return cls(_policy(policy), Match.of(**match))

    def to_json(self) -> dict[str, Any]:
        return {**self.policy.to_json(), **self.match.to_json()}

    @classmethod
    def from_json(cls, stored: Any) -> Self:
        """The rule that `to_json` has written; raises `BadPolicy` for anything else."""
        said = _object(stored, "a rule")
        match = {name: said.pop(name) for name in ("step", "code", "exception", "where") if name in said}
        return cls(policy_from_json(said), Match.of(**match))


def policy_from_json(stored: Any) -> Policy:
    """A policy as `to_json` has written it, or as a person has; raises `BadPolicy`."""
    if isinstance(stored, str):
        stored = {"policy": stored}
    said = _object(stored, "a policy")
    kind = said.pop("policy", None)
    maker = _READERS.get(kind) if isinstance(kind, str) else None
    if maker is None:
        raise BadPolicy(f"policy={kind!r} is not one of {', '.join(_READERS)}")
    if "then" in said:
        said["then"] = policy_from_json(said["then"])
    try:
        return maker(**said)
    except TypeError as error:
        raise BadPolicy(f"{kind}: {str(error).replace('()', '')}") from error


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


def _policy(said: Said) -> Policy:
    policy = said() if said is isolate else said
    if not isinstance(policy, Policy):
        raise BadPolicy(f"{said!r} is no policy: ignore, isolate, repeat, repeat_after, correct or salvage")
    return policy


def _then(said: Said) -> Then:
    policy = _policy(said)
    if not isinstance(policy, Then):
        raise BadPolicy(f"then={policy.kind}: after the last repeat comes isolate or an approved ignore")
    return policy


def _fallback(said: Said) -> Fallback:
    policy = _policy(said)
    if isinstance(policy, Correct | Salvage):
        raise BadPolicy(f"then={policy.kind}: one mending a record; then comes isolate, ignore, repeat or repeat_after")
    return policy


def _end(until: str | date | datetime) -> datetime:
    try:
        end = parse_date_or_time(until) if isinstance(until, str) else until
    except ValueError as error:
        raise BadPolicy(f'ignore: until="2027-01-31" or a time with its zone, not {until!r}') from error
    if isinstance(end, datetime):
        if end.tzinfo is None:
            raise BadPolicy(f"ignore: until={until!r} is a time without its zone")
        return end.astimezone(UTC)
    if isinstance(end, date):
        return datetime.combine(end + timedelta(days=1), time(), UTC)
    raise BadPolicy(f'ignore: until="2027-01-31" or a time with its zone, not {until!r}')


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


def _repeat_after(delays: Any = None, **rest: Any) -> RepeatAfter:
    return repeat_after(Delays.from_json(_object(delays, "delays")), **rest)


def _salvage(fields: Any = (), **rest: Any) -> Salvage:
    if not isinstance(fields, list | tuple):
        raise BadPolicy(f'salvage: fields is a list, such as ["phone"], not {fields!r}')
    return salvage(*fields, **rest)


_READERS: Mapping[str, Callable[..., Policy]] = {
    "ignore": ignore,
    "isolate": isolate,
    "repeat": repeat,
    "repeat_after": _repeat_after,
    "correct": correct,
    "salvage": _salvage,
}


def _object(stored: Any, what: str) -> dict[str, Any]:
    if not isinstance(stored, Mapping):
        raise BadPolicy(f"{what} is a table of names and values, not {stored!r}")
    return {str(name): value for name, value in stored.items()}


def _is_text(value: Any) -> bool:
    """Whether a value from a file is text, whatever its declared type."""
    return isinstance(value, str)
