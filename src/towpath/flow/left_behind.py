"""Stages that have run and are not in the flow any more: what they have not read, and whether another took over. Pure.

A stage is named by its topics, so one that reads a topic more is another stage. It must not begin to read what the
former one has read already, nor pass over what that has left, without anybody having said so.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple


class Left(NamedTuple):
    """A stage of an earlier run. `unread` says where in its topics something lies that it has not read."""

    name: str
    topics: frozenset[str]
    unread: Sequence[str] = ()
    open_batch: int | None = None


def left_text(left: Left) -> str:
    """What it means that a stage is not in the flow any more."""
    text = f"the stage {left.name} has run before and is not in the flow any more"
    if left.open_batch is not None:
        text += f"; its batch {left.open_batch} is not committed, and outputs may have a part of it"
    if not left.unread:
        return f"{text}; it had read everything"
    return f"{text}; it will not read {', '.join(left.unread)}"


def taken_over(
    flow: str, stage: str, called: str, topics: Collection[str], begun: Mapping[str, object], left: Sequence[Left]
) -> str | None:
    """Why a stage cannot begin to read its new topics, and what to do; None: it can.

    `begun` are the topics for which it has positions. Somebody who resets it has said from where it reads all of them.
    """
    new = frozenset(topics) - begun.keys()
    for other in left:
        is_twin = other.name == called and not begun.keys() <= set(topics)
        shared = sorted(other.topics & (frozenset(topics) if is_twin else new))
        if not shared:
            continue
        what = f"the stage {other.name}, which is not in the flow any more, has read {' and '.join(shared)}"
        anew = f"towpath flow reset {flow} {stage} --to earliest (or latest) begins anew"
        if stage != called or begun:
            return f"{what}, and {called} would read it again from its start, or pass over what is left; {anew}"
        return (
            f"{what}, and {called} is a stage of its own: it would read it again from its start, or pass over what is "
            f"left. If it is the same stage, say flow.renamed({other.name!r}, {called!r}); otherwise {anew}"
        )
    return None
