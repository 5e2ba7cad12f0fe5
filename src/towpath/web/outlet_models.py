"""Results of uploads as they are shown, and what is acknowledged."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from towpath.boundary.outlet import QueryView
from towpath.web.model import Sent

LONGEST_CURSOR = 1_000

Cursor = Annotated[str, Field(min_length=1, max_length=LONGEST_CURSOR)]


class ResultOut(BaseModel):
    """A result of an upload, and how far its client has it."""

    query: str
    kind: Literal["streamed", "closing", ""] = Field(
        description="Whether rows come while data comes, or at its end; empty: not known yet."
    )
    state: Literal["open", "complete"] = Field(description="`complete`: no more rows will come.")
    rows: int | None = Field(description="How many; known when it is complete.")
    bytes: int | None
    cursor: str | None = Field(description="How far it is acknowledged; null: not at all.")
    acknowledged_at: datetime | None
    is_acknowledged: bool = Field(description="Whether its client has all of it.")

    @classmethod
    def of(cls, view: QueryView) -> ResultOut:
        return cls.model_validate({name: getattr(view, name) for name in cls.model_fields})


class Results(BaseModel):
    """All results of an upload."""

    items: list[ResultOut]


class Acknowledge(Sent):
    """All before this cursor is safe with the client."""

    cursor: Cursor
