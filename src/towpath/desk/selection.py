"""Which cases are meant: the filter of a list, and what a bulk job is for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any

from towpath.desk.case_state import CaseState
from towpath.errors import BadValue

_TIMES = ("since", "until")


@dataclass(frozen=True, slots=True)
class Selection:
    """All that is given must hold; what is None does not count. One without anything means all cases."""

    flow: str | None = None
    stage: str | None = None
    step: str | None = None
    code: int | None = None
    exception: str | None = None
    group: int | None = None
    fingerprint: str | None = None
    states: tuple[CaseState, ...] | None = None
    assignee: str | None = None
    text: str | None = None  # somewhere in the message of the last failure
    body: str | None = None  # somewhere in the body that goes out next
    since: datetime | None = None  # failed last at this time or later
    until: datetime | None = None  # failed last before this time
    ids: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name in _TIMES:
            time = getattr(self, name)
            if time is not None and time.tzinfo is None:
                raise BadValue(f"{name}: a time needs its zone")
        if self.text == "" or self.body == "":
            raise BadValue("an empty text is found everywhere: leave it away")

    @property
    def is_everything(self) -> bool:
        """Whether nothing narrows it."""
        return self == Selection()

    def within(self, **narrower: Any) -> Selection:
        """The same with more said."""
        return replace(self, **narrower)

    def to_json(self) -> dict[str, Any]:
        """What is given, as JSON has it."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: _plain(value) for name, value in given.items() if value is not None}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Selection:
        """Raises `BadValue` for what no selection has."""
        unknown = sorted(set(data) - {field.name for field in fields(cls)})
        if unknown:
            raise BadValue(f"cases cannot be selected by {unknown[0]!r}")
        return cls(**{name: _read(name, value) for name, value in data.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return list(value) if isinstance(value, tuple) else value


def _read(name: str, value: Any) -> Any:
    try:
        if value is None:
            return None
        if name in _TIMES:
            return datetime.fromisoformat(value)
        if name == "states":
            return tuple(CaseState(state) for state in value)
        return tuple(value) if name == "ids" else value
    except (TypeError, ValueError) as error:
        raise BadValue(f"{name}: {value!r} is not what cases can be selected by") from error
