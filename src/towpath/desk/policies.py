"""Which rule decides about an error, and how. Pure: the rules and the time are given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple, Protocol

import orjson

from towpath import policy
from towpath.desk.decision import AfterMending, Again, Correct, Decision, Ignore, Isolate, Salvage
from towpath.expression import Expression, Unreadable
from towpath.log.record import Headers
from towpath.policy import Match, Rule

LARGEST_BODY = 16 << 20  # bytes that are read for an expression


class What(Protocol):
    """What happened, as a `Failure` says it."""

    @property
    def code(self) -> int: ...
    @property
    def step(self) -> str: ...
    @property
    def exception(self) -> str: ...
    @property
    def message(self) -> str: ...


class Carried(Protocol):
    """The record to which it happened."""

    @property
    def value(self) -> bytes | None: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def headers(self) -> Headers: ...


class NamedRule(NamedTuple):
    """A rule and what cases call it: `shop/operator/3/0` is the first one of version 3 of the operators' rules."""

    id: str
    rule: Rule


@dataclass(slots=True)
class Policies:
    """The rules of all flows at one moment, those of operators before those of the flow's code."""

    rules: Mapping[str, Sequence[NamedRule]]
    now: datetime
    unreadable: Counter[str] = field(default_factory=Counter)  # by rule: records that its expression is not about

    def decide(self, flow: str, failure: What, attempts: int, record: Carried, *, is_mended: bool = False) -> Decision:
        """What the first rule that fits says. `attempts` counts the failures, this one too.

        `is_mended`: the record that failed was corrected or salvaged before, which is done once.
        """
        found = self.first(flow, failure, attempts, record)
        return Isolate() if found is None else decision(found, attempts, self.now, is_mended=is_mended)

    def first(self, flow: str, failure: What, attempts: int, record: Carried) -> NamedRule | None:
        """The first rule that fits."""
        rules = self.rules.get(flow)
        if not rules:
            return None
        get = _values(failure, attempts, record)
        return next((each for each in rules if self._fits(each, failure, get)), None)

    def _fits(self, named: NamedRule, failure: What, get: Callable[[str], Any]) -> bool:
        match = named.rule.match
        if not _is_about(match, failure):
            return False
        return match.where is None or self._holds(named.id, match.where, get)

    def _holds(self, id: str, where: Expression, get: Callable[[str], Any]) -> bool:
        try:
            return where.holds(get)
        except Unreadable:
            self.unreadable[id] += 1
            return False


def _is_about(match: Match, failure: What) -> bool:
    return (
        match.step in (None, failure.step)
        and (match.code is None or match.code == failure.code)
        and (match.exception in (None, failure.exception) or _short(failure.exception) == match.exception)
    )


def _short(exception: str) -> str:
    """`Timeout` of `requests.exceptions.Timeout`."""
    return exception.rpartition(".")[2]


def decision(named: NamedRule, attempts: int, now: datetime, *, is_mended: bool = False) -> Decision:
    """What one rule says about the error of an attempt."""
    match named.rule.policy:
        case policy.Correct() as correct:
            then = _plain(named.id, correct.then, attempts, now)
            return then if is_mended else Correct(then, named.id)
        case policy.Salvage() as salvage:
            then = _plain(named.id, salvage.then, attempts, now)
            return then if is_mended else Salvage(salvage.fields, named.id, then)
        case plain:
            return _plain(named.id, plain, attempts, now)


def _plain(id: str, plain: policy.Fallback, attempts: int, now: datetime) -> AfterMending:
    match plain:
        case policy.Isolate():
            return Isolate(id)
        case policy.Ignore():
            return Isolate(id) if plain.is_over(now) else Ignore(id, plain.approved_by)
        case policy.Repeat():
            again = plain.before(attempts) is not None
            return Again(None, id) if again else _plain(id, plain.then, attempts, now)
        case policy.RepeatAfter():
            delay_s = plain.before(attempts)
            return _plain(id, plain.then, attempts, now) if delay_s is None else Again(delay_s, id, plain.jitter_s)


def _values(failure: What, attempts: int, record: Carried) -> Callable[[str], Any]:
    """What gives expressions their values. A body is read once, and only when it is asked for."""

    @cache
    def get(name: str) -> Any:
        match name:
            case "value":
                return _body(record.value)
            case "key":
                return None if record.key is None else record.key.decode("utf-8", "replace")
            case "headers":
                return {name: _text(value) for name, value in record.headers}
            case "attempts":
                return attempts
            case "code":
                return int(failure.code)
        return getattr(failure, name)

    return get


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")


def _body(value: bytes | None) -> Any:
    if value is None or len(value) > LARGEST_BODY:
        raise Unreadable
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise Unreadable from error
