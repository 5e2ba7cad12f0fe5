"""Which rule decides about an error, and how. Pure: the rules and the time are given.

A rule may also change the body: a learned correction, made by an `AutoEditor`, or salvage, which leaves bad fields
out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple, Protocol

import orjson

from towpath import policy
from towpath.core.expression import Expression, NotApplicable
from towpath.db import Transaction
from towpath.flow.failures import RecordFailure
from towpath.flow.records.reentry import CORRECTED
from towpath.log.record import Headers, decode_headers, encode_headers
from towpath.policy import Match, Rule

LARGEST_BODY = 16 << 20  # bytes that are read for an expression

HEADER = "header"  # among the data of what was mended: what that header is to say


@dataclass(slots=True)
class Policies:
    """The rules of all flows at one moment, those of operators before those of the flow's code."""

    rules: Mapping[str, Sequence[NamedRule]]
    now: datetime
    unreadable: Counter[str] = field(default_factory=Counter)  # by rule: records that its expression is not about

    def decide(
        self, flow: str, failure: PolicyFailure, attempts: int, record: PolicyRecord, *, is_mended: bool = False
    ) -> Decision:
        """What the first rule that fits says. `attempts` counts the failures, this one too.

        `is_mended`: the record that failed was corrected or salvaged before, which is done once.
        """
        found = self.first(flow, failure, attempts, record)
        return IsolateDecision() if found is None else decision(found, attempts, self.now, is_mended=is_mended)

    def first(self, flow: str, failure: PolicyFailure, attempts: int, record: PolicyRecord) -> NamedRule | None:
        """The first rule that fits."""
        rules = self.rules.get(flow)
        if not rules:
            return None
        get = _values(failure, attempts, record)
        return next((each for each in rules if self._fits(each, failure, get)), None)

    def _fits(self, named: NamedRule, failure: PolicyFailure, get: Callable[[str], Any]) -> bool:
        match = named.rule.match
        if not _is_about(match, failure):
            return False
        return match.where is None or self._holds(named.id, match.where, get)

    def _holds(self, id: str, where: Expression, get: Callable[[str], Any]) -> bool:
        try:
            return where.holds(get)
        except NotApplicable:
            self.unreadable[id] += 1
            return False


class NamedRule(NamedTuple):
    """A rule and what cases call it: `shop/operator/3/0` is the first one of version 3 of the operators' rules."""

    id: str
    rule: Rule


class PolicyFailure(Protocol):
    """What happened, as a `Failure` says it."""

    @property
    def code(self) -> int: ...
    @property
    def step(self) -> str: ...
    @property
    def exception(self) -> str: ...
    @property
    def message(self) -> str: ...


class PolicyRecord(Protocol):
    """The record to which it happened."""

    @property
    def value(self) -> bytes | None: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def headers(self) -> Headers: ...


def _is_about(match: Match, failure: PolicyFailure) -> bool:
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
            return then if is_mended else CorrectDecision(then, named.id)
        case policy.Salvage() as salvage:
            then = _plain(named.id, salvage.then, attempts, now)
            return then if is_mended else SalvageDecision(salvage.fields, named.id, then)
        case plain:
            return _plain(named.id, plain, attempts, now)


def _plain(id: str, plain: policy.Fallback, attempts: int, now: datetime) -> AfterMending:
    match plain:
        case policy.Isolate():
            return IsolateDecision(id)
        case policy.Ignore():
            return IsolateDecision(id) if plain.is_over(now) else IgnoreDecision(id, plain.approved_by)
        case policy.Repeat():
            again = plain.before(attempts) is not None
            return RepeatDecision(None, id) if again else _plain(id, plain.then, attempts, now)
        case policy.RepeatAfter():
            delay_s = plain.before(attempts)
            return (
                _plain(id, plain.then, attempts, now)
                if delay_s is None
                else RepeatDecision(delay_s, id, plain.jitter_s)
            )


def _values(failure: PolicyFailure, attempts: int, record: PolicyRecord) -> Callable[[str], Any]:
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
        raise NotApplicable
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise NotApplicable from error


@dataclass(frozen=True, slots=True)
class IsolateDecision:
    """A case for a person. Without a rule: none has fitted."""

    rule: str | None = None


@dataclass(frozen=True, slots=True)
class IgnoreDecision:
    """In front of nobody, by a rule that a person has approved."""

    rule: str
    approved_by: str


@dataclass(frozen=True, slots=True)
class RepeatDecision:
    """Back into the flow: at once, or after waiting in the lane of that delay."""

    delay_s: float | None
    rule: str
    jitter_s: float = 0.0


AfterMending = IsolateDecision | IgnoreDecision | RepeatDecision


@dataclass(frozen=True, slots=True)
class CorrectDecision:
    """A learned correction; when there is none that is sure enough, `then`."""

    then: AfterMending
    rule: str = ""


@dataclass(frozen=True, slots=True)
class SalvageDecision:
    """Back into the flow without these fields; when the record has none of them, `then`."""

    fields: tuple[str, ...]
    rule: str
    then: AfterMending = IsolateDecision()


Decision = IsolateDecision | IgnoreDecision | RepeatDecision | CorrectDecision | SalvageDecision


@dataclass(frozen=True, slots=True)
class AutoEdit:
    """A changed body, which rule changed it, and why."""

    value: bytes
    who: str
    why: str
    data: Mapping[str, Any] = field(default_factory=dict)


class RuleEdit(NamedTuple):
    """An edit that a rule has made of a case."""

    case_id: str
    edit: int
    attempts: int  # failures before it
    mended: AutoEdit


class AutoEditor(Protocol):
    """Corrects records without asking, by what it has learned."""

    def automatic(self, flow: str, stage: str, value: bytes, failure: RecordFailure) -> AutoEdit | None:
        """The correction that is sure enough to be made without a person; None: there is none."""

    def made(self, tx: Transaction, made: Sequence[RuleEdit]) -> None:
        """Note that this transaction makes these corrections."""


def marked(headers: str, mended: AutoEdit) -> str:
    """Encoded headers, with what was changed of the record: whoever reads it can see that."""
    if HEADER not in mended.data:
        return headers
    return encode_headers((*decode_headers(headers), (CORRECTED, str(mended.data[HEADER]).encode()))) or headers


def salvaged(value: bytes, fields: Collection[str], rule: str) -> AutoEdit | None:
    """The record without these fields; None when it has none of them, or is no JSON object."""
    from towpath.flow.documents.reader import Unreadable, read_document  # needs Arrow
    from towpath.flow.documents.splice import splice

    try:
        document = read_document(value)
    except Unreadable:
        return None
    left_out = sorted(name for name in fields if name in document)
    if not left_out:
        return None
    why = f"left out: {', '.join(left_out)}"
    said = {"left_out": left_out, HEADER: json.dumps({"left_out": left_out, "rule": rule})}
    return AutoEdit(splice(value, {}, left_out), f"rule:{rule}", why, said)
