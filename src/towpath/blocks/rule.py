"""A block rule: which records it is about, and what becomes of them. Pure: it is asked at the gateway and in workers.

Of the rules in force that fit a record, the first decides (`BlockBarrier`). docs/reference/block-states.md is held
equal to the states here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cache
from typing import Any, Protocol, Self

import orjson

from towpath.core.expression import Expression, NotApplicable
from towpath.db.database import storable
from towpath.errors import BadBlock

Headers = tuple[tuple[str, bytes | None], ...]
Get = Callable[[str], Any]

ABOUT_RECORDS = frozenset({"value", "key", "headers"})  # of the names that an expression may have
LARGEST_VALUE = 16 << 20  # bytes that are read for an expression
LONGEST_NAME = 300
LONGEST_KEY = 1_000
SENDER = "sender"  # the header in which the gateway says who has sent a record
REFUSED_LINE = b'["towpath-refused",'  # how the value of a line begins that the gateway has refused


@dataclass(frozen=True, slots=True)
class BlockBarrier:
    """The rules that count for some work, in the order of their numbers. False when there are none."""

    rules: tuple[BlockRule, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.rules)

    def for_topics(self, topics: Iterable[str]) -> Self:
        """The rules that can be about records of these topics."""
        known = {None, *topics}
        return self._only(rule for rule in self.rules if rule.match.is_for_topics and rule.match.topic in known)

    def for_sender(self, stream: str, user: str, topic: str) -> Self:
        """The rules that can be about what this user sends for an input of a stream."""
        mine = (rule for rule in self.rules if rule.match.is_from(stream, user))
        return self._only(rule for rule in mine if rule.match.topic in (None, topic))

    def _only(self, rules: Iterable[BlockRule]) -> Self:
        return type(self)(tuple(rules))

    def caught(self, records: BlockCandidates, rows: Sequence[int]) -> dict[int, BlockRule]:
        """The rule that decides about each of these rows, of those that a rule is about."""
        found: dict[int, BlockRule] = {}
        parts: dict[int, Get] = {}
        for rule in self.rules:
            match = rule.match
            for at in match.among(records, rows):
                if at in found:
                    continue
                if match.needs_reading and at not in parts:
                    parts[at] = _parts_of(records, at)
                if not match.needs_reading or match.fits(parts[at]):
                    found[at] = rule
        return found

    def caught_in_topics(self, records: BlockCandidates, but: str | None = None) -> dict[int, BlockRule]:
        """The same for records of topics, except one topic: what comes back from the desk was let in before.

        What the gateway has refused is on its way to the desk, and passes.
        """
        values, topics = records.values, records.topics
        rows = [at for at, value in enumerate(values) if value is None or not value.startswith(REFUSED_LINE)]
        return self.caught(records, rows if but is None else [at for at in rows if topics[at] != but])

    def to_value(self) -> list[dict[str, Any]]:
        return [rule.to_json() for rule in self.rules]

    @classmethod
    def of_value(cls, stored: Sequence[Mapping[str, Any]]) -> Self:
        return cls(tuple(map(BlockRule.from_json, stored)))


OPEN = BlockBarrier()  # nothing is kept out


@dataclass(frozen=True, slots=True)
class BlockRule:
    """A rule: which records it is about, what becomes of them, and why."""

    number: int
    action: BlockAction
    match: BlockMatch
    why: str

    @property
    def reason(self) -> str:
        """The reason that is given for a record that it refuses."""
        return f"block rule {self.number}: {self.why}"

    def to_json(self) -> dict[str, Any]:
        return {"number": self.number, "action": self.action, "why": self.why, **self.match.to_json()}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        said = dict(stored)
        number, action, why = said.pop("number"), BlockAction(said.pop("action")), said.pop("why")
        return cls(number, action, BlockMatch.of(**said), why)


@dataclass(frozen=True, slots=True)
class BlockMatch:
    """The records that a rule is about: every condition must fit. Stream and user are known at the gateway only."""

    stream: str | None = None
    topic: str | None = None
    sender: str | None = None
    user: str | None = None
    key: str | None = None
    prefix: str | None = None  # of a key
    where: Expression | None = None

    @classmethod
    def of(cls, *, where: str | None = None, **names: str | None) -> Self:
        """A checked match; raises `BadBlock` for one that could match nothing, or everything."""
        said = {name: text for name, text in names.items() if text is not None}
        for name, text in said.items():
            _check(name, text)
        if not said and where is None:
            raise BadBlock("say which records: by stream, topic, sender, user, key, prefix of a key, or an expression")
        if "key" in said and "prefix" in said:
            raise BadBlock("a rule is for one key or for keys that begin so, not for both")
        return cls(**said, where=None if where is None else _parsed(where))

    @property
    def is_for_topics(self) -> bool:
        """Whether it can be asked about a record in a topic."""
        return self.stream is None and self.user is None

    def is_from(self, stream: str, user: str) -> bool:
        """Whether it can be about what this user sends for this stream."""
        return self.stream in (None, stream) and self.user in (None, user)

    def among(self, records: BlockCandidates, rows: Sequence[int]) -> Sequence[int]:
        """The rows among these that have its topic and key, which can be told without reading a record."""
        if self.topic is not None:
            topics = records.topics
            rows = [at for at in rows if topics[at] == self.topic]
        if self.key is not None:
            keys, wanted = records.keys, self.key.encode()
            rows = [at for at in rows if keys[at] == wanted]
        if self.prefix is not None:
            keys, begin = records.keys, self.prefix.encode()
            rows = [at for at in rows if (keys[at] or b"").startswith(begin)]
        return rows

    @property
    def needs_reading(self) -> bool:
        """Whether topic and key alone cannot decide."""
        return self.sender is not None or self.where is not None

    def fits(self, get: Get) -> bool:
        """Whether a record of its topic and key is one that it is about; `get` gives the parts of the record."""
        return (self.sender is None or get("headers").get(SENDER) == self.sender) and (
            self.where is None or _holds(self.where, get)
        )

    def to_json(self) -> dict[str, str]:
        said = {each.name: getattr(self, each.name) for each in fields(self)}
        said["where"] = None if self.where is None else self.where.text
        return {name: text for name, text in said.items() if text is not None}

    def __str__(self) -> str:
        return ", ".join(f"{name} {text}" for name, text in self.to_json().items())


class BlockAction(StrEnum):
    """What becomes of a record that a rule is about."""

    REFUSE = "refuse"  # it becomes a case, with the rule as the reason
    IGNORE = "ignore"  # it is counted as blocked, and goes no further


class BlockState(StrEnum):
    """Whether a rule counts."""

    ACTIVE = "active"  # it counts
    ENDED = "ended"  # its time is over
    WITHDRAWN = "withdrawn"  # a person has taken it away


class BlockMove(StrEnum):
    """What can happen to a rule. The value is the label of its arrow in a chart."""

    END = "its time is over"
    WITHDRAW = "withdrawn"


@dataclass(frozen=True, slots=True)
class BlockArrow:
    """One move: from which states, to which."""

    sources: tuple[BlockState, ...]
    target: BlockState


MOVES: dict[BlockMove, BlockArrow] = {
    BlockMove.END: BlockArrow((BlockState.ACTIVE,), BlockState.ENDED),
    BlockMove.WITHDRAW: BlockArrow((BlockState.ACTIVE,), BlockState.WITHDRAWN),
}


class BlockCandidates(Protocol):
    """Records that rules are asked about, by row."""

    @property
    def topics(self) -> Sequence[str]: ...
    @property
    def keys(self) -> Sequence[bytes | None]: ...
    @property
    def values(self) -> Sequence[bytes | None]: ...
    def headers(self, at: int) -> Headers: ...


@dataclass(frozen=True, slots=True)
class OneRecord:
    """A single record, to be asked about."""

    topic: str
    key: bytes | None
    value: bytes | None
    said: Headers = ()

    @classmethod
    def of(cls, record: LogRecord) -> Self:
        return cls(record.topic, record.key, record.value, record.headers)

    @property
    def topics(self) -> Sequence[str]:
        return (self.topic,)

    @property
    def keys(self) -> Sequence[bytes | None]:
        return (self.key,)

    @property
    def values(self) -> Sequence[bytes | None]:
        return (self.value,)

    def headers(self, at: int) -> Headers:
        return self.said


class LogRecord(Protocol):
    """A record as the log gives it."""

    @property
    def topic(self) -> str: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Headers: ...


def _parts_of(records: BlockCandidates, at: int) -> Get:
    """A function that gives the parts of a record. Each is read once, and only when a rule needs it."""

    @cache
    def get(name: str) -> Any:
        match name:
            case "value":
                return _body(records.values[at])
            case "key":
                return _text(records.keys[at])
        return {header: _text(text) for header, text in records.headers(at)}

    return get


def _check(name: str, text: str) -> None:
    most = LONGEST_KEY if name in ("key", "prefix") else LONGEST_NAME
    if not 0 < len(text) <= most:
        raise BadBlock(f"{name}: it has 1 to {most} characters")
    _check_kept(name, text)


def _check_kept(name: str, text: str) -> None:
    if storable(text) != text:
        raise BadBlock(f"{name}: it holds characters that no database can keep")


def _parsed(where: str) -> Expression:
    _check_kept("where", where)
    found = Expression.parse(where)
    if strangers := found.names - ABOUT_RECORDS:
        raise BadBlock(f"{min(strangers)}: a record has not failed yet; there are value, key and headers")
    return found


def _holds(where: Expression, get: Get) -> bool:
    try:
        return where.holds(get)
    except NotApplicable:
        return False


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")


def _body(value: bytes | None) -> Any:
    if value is None or len(value) > LARGEST_VALUE:
        raise NotApplicable
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise NotApplicable from error
