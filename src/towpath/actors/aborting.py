"""Ending runs before their time: by hand, or with the run that called them."""

from __future__ import annotations

from collections.abc import Sequence

from towpath.actors.instance import Instance
from towpath.actors.parts import Parts
from towpath.actors.phase import Phase
from towpath.actors.planning import Instead, plan_failure
from towpath.actors.redirecting import redirect
from towpath.actors.state import TERMINAL
from towpath.db import Transaction
from towpath.queue.state import MessageState

_ENDS = {each.__name__ for each in TERMINAL}


def abort(parts: Parts, tx: Transaction, instance: Instance, reason: str) -> bool:
    """Let a live run fail: at once, or when the code that runs returns. False when it ends or has ended already.

    The caller has locked the instance.
    """
    if not instance.is_live or instance.step in _ENDS:
        return False
    if instance.phase is Phase.RUNNING:
        parts.instances.ask_abort(tx, instance.inbox, reason)
        parts.queue.ring_after(tx, instance.inbox)
    else:
        redirect(parts, tx, instance, Instead(MessageState.DEAD, reason, plan_failure(reason)))
    return True


def abort_children(parts: Parts, tx: Transaction, parents: Sequence[Instance]) -> None:
    """Abort what these have called and tied to themselves."""
    names = {parent.inbox: parent.name for parent in parents}
    for child in parts.instances.tied_children(tx, names):
        abort(parts, tx, child, f"{names[child.parent or '']}, which called it, has come to its end")
