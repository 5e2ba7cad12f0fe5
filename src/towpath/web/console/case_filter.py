"""The filter of a list of cases, as an address has it: one for lists, bulk jobs, exports and the next case."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from pydantic import ValidationError

from towpath.desk.case_state import LIVE, CaseState
from towpath.desk.selection import Selection
from towpath.errors import BadValue
from towpath.web.desk_models import Chosen

FIELDS = (
    *("flow", "state", "group", "code", "step", "exception", "assignee", "text", "body", "since", "until", "stage"),
    "fingerprint",
)
ON_THE_DESK = "on the desk"  # stands for all states of cases that are not settled
_TIMES = ("since", "until")
# With another one, all that is there may have to be looked at to count what fits.
_COUNTED = ("flow", "state", "group")


@dataclass(frozen=True, slots=True)
class CaseFilter:
    """What is filled in, by name."""

    given: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> CaseFilter:
        """From all that an address or a form has."""
        return cls(tuple((name, value.strip()) for name, value in pairs if name in FIELDS and value.strip()))

    def __bool__(self) -> bool:
        return bool(self.given)

    @property
    def query(self) -> str:
        """For an address."""
        return urlencode(self.given)

    def one(self, name: str) -> str:
        return next((value for key, value in self.given if key == name), "")

    def without(self, *names: str) -> CaseFilter:
        return CaseFilter(tuple(pair for pair in self.given if pair[0] not in names))

    def within(self, **narrower: object) -> CaseFilter:
        """The same with something else in these fields."""
        return CaseFilter((*self.without(*narrower).given, *((name, str(value)) for name, value in narrower.items())))

    @property
    def is_slow(self) -> bool:
        """Whether it is not known at once how many cases it lets through."""
        return any(name not in _COUNTED for name, _ in self.given)

    @property
    def selection(self) -> Selection:
        """Raises `BadValue` for what no case can have."""
        said: dict[str, Any] = {name: self.one(name) for name in FIELDS if name != "state" and self.one(name)}
        said |= {name: _time(name, said[name]) for name in _TIMES if name in said}
        states = [value for name, value in self.given if name == "state"]
        if states:
            said["states"] = sorted(LIVE) if ON_THE_DESK in states else [_state(each) for each in states]
        try:
            return Chosen(**said).selection()
        except ValidationError as error:
            first = error.errors()[0]
            raise BadValue(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _state(text: str) -> CaseState:
    try:
        return CaseState(text)
    except ValueError:
        raise BadValue(f"state: {text!r} is not one of {', '.join(CaseState)}") from None


def _time(name: str, text: str) -> datetime:
    """As browsers send it, without a zone: in UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise BadValue(f"{name}: write a time as 2026-01-31T18:00, not {text!r}") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
