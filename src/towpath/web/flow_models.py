"""What is asked of flows, as it is sent, and pages of what is answered."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from towpath.web.desk_items import Item
from towpath.web.desk_models import Named
from towpath.web.model import Sent, Why


class Flows(BaseModel):
    """Flows, by name, each with its stages."""

    items: list[Item]


class Asked(Sent):
    """Something that is wanted of a flow, or of one of its stages."""

    stage: Named | None = Field(None, description="Only of this stage; otherwise of all in which it is possible.")
    why: Why


class ResetTo(Sent):
    """Where a flow is to go on."""

    to: Literal["earliest", "latest"] = Field("earliest", description="What is still there, or what comes next.")
    stage: Named | None = Field(None, description="Only this stage; otherwise all of them.")


class Reset(ResetTo):
    """A reset."""

    why: Why


class Answered(BaseModel):
    """The stages that were asked, as they are; `is_done` says whether the process that runs one has done it yet."""

    items: list[Item]


class Traced(BaseModel):
    """Where records are, and how they got there."""

    flow: str
    items: list[Item]
    matches: int | None = Field(None, description="Of a key: how many records have it; the newest are shown.")
    offsets_read: int | None = Field(
        None, description="Of a key: only so many offsets of each partition were looked at; null: all."
    )
