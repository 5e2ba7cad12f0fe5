"""Block rules: what is not taken, by whose word, and until when."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response
from pydantic import Field

from towpath.access.block import Block
from towpath.access.block_json import block_item
from towpath.access.block_rule import LONGEST_KEY, LONGEST_NAME, BlockAction, BlockMatch, BlockState
from towpath.expression_parser import LONGEST_TEXT
from towpath.web.asking import PolicyMaker, Reader, runtime_of
from towpath.web.changing import Maker
from towpath.web.desk_items import Item
from towpath.web.model import LARGEST, PREFIX, Before, Limit, Page, Reason, Sent, Why, page

router = APIRouter(prefix=f"{PREFIX}/blocks", tags=["blocks"])

Number = Annotated[int, Path(ge=1, le=LARGEST)]
Name = Annotated[str | None, Field(max_length=LONGEST_NAME)]
Key = Annotated[str | None, Field(max_length=LONGEST_KEY)]
Until = Annotated[
    str,
    Field(
        max_length=40,
        description="When the rule ends: a date such as `2027-01-31`, to its end in UTC, or a time with its zone.",
    ),
]


class NewBlock(Sent):
    """A rule: all that is said of its records must fit."""

    action: BlockAction = Field(description="`refuse`: they become cases. `ignore`: they are counted, and no more.")
    stream: Name = Field(None, description="Of which stream; known at the gateway only.")
    topic: Name = None
    sender: Name = Field(None, description="Of which sender of an upload.")
    user: Name = Field(None, description="Of uploads of which user; known at the gateway only.")
    key: Key = Field(None, description="With this key.")
    prefix: Key = Field(None, description="With a key that begins so.")
    where: Annotated[str | None, Field(max_length=LONGEST_TEXT)] = Field(
        None, description="An expression over `value`, `key` and `headers`, as policies have it."
    )
    until: Until
    approved_by: Name = Field(None, description="The person who answers for it; you, if nobody is named.")
    why: Why

    def match(self) -> BlockMatch:
        names = ("stream", "topic", "sender", "user", "key", "prefix")
        return BlockMatch.of(where=self.where, **{name: getattr(self, name) for name in names})


@router.get("")
def blocks(
    request: Request, principal: Reader, state: BlockState | None = None, limit: Limit = 100, before: Before = None
) -> Page[Item]:
    """Block rules, the newest first."""
    found = runtime_of(request).blocks.list(state=state, limit=limit + 1, before=before)
    return page(found, limit, block_item)


@router.get("/{number}")
def show(request: Request, number: Number, principal: Reader) -> Item:
    """One rule, and what it has caught."""
    return block_item(runtime_of(request).blocks.show(number))


@router.post("", status_code=201, response_model=Item)
def add(request: Request, sent: NewBlock, principal: PolicyMaker, maker: Maker) -> Response:
    """Make a rule. It counts at once: at the gateway within a second, in flows from their next batch on."""
    blocks = runtime_of(request).blocks
    match = sent.match()

    def act() -> Block:
        return blocks.add(
            sent.action, match, until=sent.until, who=principal.name, why=sent.why, approved_by=sent.approved_by
        )

    def show(made: Block | None) -> Item:  # None: the answer was lost, and nobody else has made the same since
        mine = (each for each in blocks.list() if each.made_by == principal.name and each.rule.match == match)
        return block_item(made or next(mine))

    return maker.make(principal, "add block rule", str(match), act, show, status=201)


@router.post("/{number}/withdraw", response_model=Item)
def withdraw(request: Request, number: Number, sent: Reason, principal: PolicyMaker, maker: Maker) -> Response:
    """Take a rule away. What it has kept out stays out; what comes from now on is taken."""
    blocks = runtime_of(request).blocks
    return maker.make(
        principal,
        "withdraw block rule",
        number,
        lambda: blocks.withdraw(number, who=principal.name, why=sent.why),
        lambda made: block_item(made or blocks.show(number)),
    )
