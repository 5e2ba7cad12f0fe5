"""Until when nobody wants to hear of a group: so many more cases, a time, or a rate. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from towpath.clock import MICROS
from towpath.errors import BadValue


@dataclass(frozen=True, slots=True)
class Archive:
    """One of the three; with nothing, for ever. The last two count the cases of the present period of a rate."""

    more: int | None = None  # cases that may come before it is back
    until_us: int | None = None  # what comes at this time or later brings it back
    rate: int | None = None  # so many cases within `per_s` bring it back
    per_s: float | None = None
    since_us: int = 0
    count: int = 0

    def __post_init__(self) -> None:
        if sum(each is not None for each in (self.more, self.until_us, self.rate)) > 1:
            raise BadValue("a group is archived until so many more cases, or a time, or a rate: one of them")
        if (self.rate is None) != (self.per_s is None):
            raise BadValue("a rate is a number of cases and a number of seconds")
        if any(each is not None and each <= 0 for each in (self.more, self.rate, self.per_s)):
            raise BadValue("until when a group is archived is said in numbers above 0")

    def after(self, cases: int, now_us: int) -> Self | None:
        """What it is when so many cases have come; None: the group is back."""
        if self.more is not None:
            return replace(self, more=self.more - cases) if cases < self.more else None
        if self.until_us is not None:
            return self if now_us < self.until_us else None
        if self.rate is not None and self.per_s is not None:
            is_over = now_us - self.since_us >= self.per_s * MICROS
            count = cases if is_over else self.count + cases
            since = now_us if is_over else self.since_us
            return replace(self, since_us=since, count=count) if count < self.rate else None
        return self

    def to_json(self) -> dict[str, Any]:
        said = {"more": self.more, "until_us": self.until_us, "rate": self.rate, "per_s": self.per_s}
        counted = {"since_us": self.since_us, "count": self.count} if self.rate is not None else {}
        return {name: value for name, value in said.items() if value is not None} | counted

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(**data)
