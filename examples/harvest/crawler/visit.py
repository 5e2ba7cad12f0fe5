"""One visit of one address: what came of it, as a line that is written down."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    """What came of a visit."""

    FETCHED = "fetched"  # a page
    NOT_MODIFIED = "not modified"  # 304: the page that was there the last time, body and all
    KEPT = "kept"  # it could not be had, and so the page of the last time stays
    REDIRECT = "redirect"
    GONE = "gone"  # 404 or 410
    FAILED = "failed"  # no answer, or an error of the server
    TOO_BIG = "too big"
    TOO_SLOW = "too slow"
    NO_PAGE = "no page"  # it says itself that it is something else, such as a picture


WITH_BODY = frozenset({Outcome.FETCHED, Outcome.NOT_MODIFIED, Outcome.KEPT})


@dataclass(frozen=True)
class Visit:
    """What was found at an address."""

    url: str
    depth: int
    outcome: Outcome
    status: int | None = None
    content_type: str = ""
    etag: str | None = None
    last_modified: str | None = None
    body: bytes = b""
    links: tuple[str, ...] = ()  # where it leads, as addresses
    reason: str = ""

    @property
    def has_body(self) -> bool:
        return self.outcome in WITH_BODY

    def line(self) -> bytes:
        """As one line of JSON."""
        values: dict[str, Any] = {**asdict(self), "body": base64.b64encode(self.body).decode()}
        return json.dumps(values).encode() + b"\n"

    @classmethod
    def read(cls, line: bytes) -> Visit:
        """Raises `ValueError` for what is no line of a visit."""
        values = json.loads(line)
        try:
            outcome, body = Outcome(values.pop("outcome")), base64.b64decode(values.pop("body"), validate=True)
            return cls(**{**values, "outcome": outcome, "body": body, "links": tuple(values["links"])})
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"no visit: {error}") from error


def counted(visits: Iterable[Visit]) -> dict[str, int]:
    """How many visits there were of each outcome."""
    counts = {outcome.value: 0 for outcome in Outcome}
    for visit in visits:
        counts[visit.outcome.value] += 1
    return {name: count for name, count in counts.items() if count}
