"""Complaints and what is done about them, as they are sent."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from towpath.access.block_rule import BlockAction
from towpath.catalog.complaint import NewComplaint
from towpath.catalog.complaints import LONGEST, LONGEST_REPLY
from towpath.web.block_routes import Until
from towpath.web.model import LARGEST, Reason, Sent

Reply = Annotated[str, Field(min_length=1, max_length=LONGEST_REPLY, description="What its reader may be told.")]


class Complained(Sent):
    """What a reader says about a document."""

    target: str = Field(
        min_length=1, max_length=LONGEST["target"], description="The index, table or output that it is in."
    )
    document: str = Field(min_length=1, max_length=LONGEST["document"], description="The id of the document.")
    text: str = Field(min_length=1, max_length=LONGEST["said"], description="What is wrong with it.")
    contact: str | None = Field(
        None, min_length=1, max_length=LONGEST["contact"], description="Where you can be reached."
    )
    flow: str | None = Field(None, min_length=1, max_length=LONGEST["flow"], description="The flow, if it is known.")

    def value(self) -> NewComplaint:
        return NewComplaint(self.target, self.document, self.text, self.contact, self.flow)


class Linked(Reason):
    """The record that the document was made from."""

    topic: str = Field(min_length=1, max_length=300)
    partition: int = Field(ge=0, le=LARGEST)
    offset: int = Field(ge=0, le=LARGEST)


class Dismissed(Reason):
    """Nothing is to be done."""

    reply: Reply


class Blocked(Reason):
    """Records of its key are kept out from now on."""

    until: Until
    action: BlockAction = Field(BlockAction.IGNORE, description="What becomes of such records.")
    approved_by: str | None = Field(None, max_length=300, description="Who answers for the rule, if not you.")
    reply: Reply | None = None


class Rerun(Reason):
    """Its record is sent again."""

    reply: Reply | None = None
