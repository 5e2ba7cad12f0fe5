"""The block rules that count for one piece of work: of those that fit a record the first decides. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

from towpath.access.block_rule import REFUSED_LINE, Asked, BlockRule, Get, Headers, parts_of


@dataclass(frozen=True, slots=True)
class Barrier:
    """Some rules, in the order of their numbers. Without one it stands open: ask `if barrier` first."""

    rules: tuple[BlockRule, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.rules)

    def for_topics(self, topics: Iterable[str]) -> Self:
        """Those that can be about records of these topics."""
        known = {None, *topics}
        return self._only(rule for rule in self.rules if rule.match.is_for_topics and rule.match.topic in known)

    def for_sender(self, stream: str, user: str, topic: str) -> Self:
        """Those that can be about what this user sends for an input of a stream."""
        mine = (rule for rule in self.rules if rule.match.is_from(stream, user))
        return self._only(rule for rule in mine if rule.match.topic in (None, topic))

    def _only(self, rules: Iterable[BlockRule]) -> Self:
        return type(self)(tuple(rules))

    def caught(self, records: Asked, rows: Sequence[int]) -> dict[int, BlockRule]:
        """The rule that decides about each of these rows, of those that a rule is about."""
        found: dict[int, BlockRule] = {}
        parts: dict[int, Get] = {}
        for rule in self.rules:
            match = rule.match
            for at in match.among(records, rows):
                if at in found:
                    continue
                if match.needs_reading and at not in parts:
                    parts[at] = parts_of(records, at)
                if not match.needs_reading or match.fits(parts[at]):
                    found[at] = rule
        return found

    def caught_in_topics(self, records: Asked, but: str | None = None) -> dict[int, BlockRule]:
        """The same of records of topics, but for those of one topic: what comes back from the desk was taken before.

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


OPEN = Barrier()  # nothing is kept out


class Carried(Protocol):
    """A record as the log gives it."""

    @property
    def topic(self) -> str: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Headers: ...


@dataclass(frozen=True, slots=True)
class OneRecord:
    """A single record, to be asked about."""

    topic: str
    key: bytes | None
    value: bytes | None
    said: Headers = ()

    @classmethod
    def of(cls, record: Carried) -> Self:
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
