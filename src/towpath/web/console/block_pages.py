"""Block rules: what is not taken, by whose word, and until when."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from towpath.access.block_rule import BlockAction, BlockMatch, BlockState
from towpath.errors import BadValue
from towpath.web.asking import PolicyMaker, Reader, runtime_of
from towpath.web.console.acting import Act
from towpath.web.console.listing import before_of, cut, one_of
from towpath.web.console.pages import page

router = APIRouter(prefix="/blocks", include_in_schema=False)

ROWS = 50
MATCHED = ("stream", "topic", "sender", "user", "key", "prefix", "where")


@router.get("")
def blocks(request: Request, principal: Reader) -> Response:
    """Rules, the newest first, with what each has caught."""
    state = one_of(request, "state", BlockState)
    found = runtime_of(request).blocks.list(state=state, limit=ROWS + 1, before=before_of(request))
    shown, after = cut(found, ROWS)
    return page(request, "blocks.html", blocks=shown, next=after, states=list(BlockState), actions=list(BlockAction))


@router.post("")
def add(act: Act, principal: PolicyMaker) -> Response:
    """A new rule, which counts at once."""
    form = act.form
    match = BlockMatch.of(**{name: form.maybe(name) for name in MATCHED})
    action = _action(form.one("action"))
    return act.do(
        principal,
        "add block rule",
        match,
        lambda: act.runtime.blocks.add(action, match, until=form.text("until"), who=principal.name, why=act.why),
        lambda made: f"rule {made.rule.number} counts from now on",
        "/blocks",
    )


@router.post("/{number}/withdraw")
def withdraw(number: int, act: Act, principal: PolicyMaker) -> Response:
    """A rule does not count any more; what it has kept out stays out."""
    blocks = act.runtime.blocks
    return act.do(
        principal,
        "withdraw block rule",
        number,
        lambda: blocks.withdraw(number, who=principal.name, why=act.why),
        f"rule {number} is withdrawn",
    )


def _action(text: str) -> BlockAction:
    try:
        return BlockAction(text)
    except ValueError:
        raise BadValue(f"{text!r} is not what a rule can do; there are: {', '.join(BlockAction)}") from None
