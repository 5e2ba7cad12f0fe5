"""Lists of messages, fast however many there are.

Indexes give, in turn, what has failed or waits or is being worked on, and all that is in an inbox of Towpath's own;
there is none for what is done in the others, since it would cost every message a page. Whatever else is asked for is
looked for among these, or among all (`db/searching.py`). Nor is there one for times: messages are numbered in the order
in which they are sent, so that the number of a time is found by halving.
"""

from __future__ import annotations

from functools import partial
from heapq import merge
from itertools import islice
from typing import Any

from towpath.clock import to_micros
from towpath.db import Database, Queries, Transaction
from towpath.db.searching import LAST_SEQ, LOOK_S, SLACK_US, Found, cut, search
from towpath.queue.message import Message
from towpath.queue.payload import ACTORS
from towpath.queue.selection import Selection
from towpath.queue.state import MessageState


class MessagePages:
    """Reads pages inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.queue", "pages", database.dialect, fragments="messages")

    def page(self, tx: Transaction, selection: Selection, *, limit: int, before: int | None = None) -> list[Message]:
        """The newest first, as many as asked for if there are so many, however long that takes."""
        return self._read(tx, selection, LAST_SEQ if before is None else before, 0, limit)

    def search(
        self,
        tx: Transaction,
        selection: Selection,
        *,
        limit: int,
        before: int | None = None,
        look_s: float = LOOK_S,
    ) -> Found[Message]:
        """The newest first, as many as are found in a moment: a page may be short and have a `next`."""
        top = LAST_SEQ if before is None else before
        if _is_indexed(selection):
            return cut(self._read_in_order(tx, selection, top, 0, limit + 1), limit)
        since, until = selection.since, selection.until
        return search(
            partial(self._read_in_order, tx, selection),
            partial(self._newest_below, tx),
            limit=limit,
            before=top if until is None else min(top, self._first_at(tx, to_micros(until) + SLACK_US)),
            lowest=0 if since is None else self._first_at(tx, to_micros(since) - SLACK_US),
            look_s=look_s,
        )

    def _read(self, tx: Transaction, selection: Selection, before: int, floor: int, limit: int) -> list[Message]:
        given = {**_given(selection), "before": before, "floor": floor, "limit": limit}
        pages = [tx.rows(self._sql[f"page_{way}"], dict(given)) for way in _ways(selection)]
        return [Message.from_row(row) for row in islice(merge(*pages, key=lambda row: -int(row[0])), limit)]

    def _read_in_order(
        self, tx: Transaction, selection: Selection, before: int, floor: int, limit: int
    ) -> list[Message]:
        """Only as much as is needed."""
        tx.run(self._sql["read_in_order"], {})
        found = self._read(tx, selection, before, floor, limit)
        tx.run(self._sql["read_as_usual"], {})
        return found

    def _newest_below(self, tx: Transaction, below: int) -> int | None:
        newest: int | None = tx.rows(self._sql["newest_below"], {"below": below})[0][0]
        return newest

    def _first_at(self, tx: Transaction, at_us: int) -> int:
        """From which number on messages were sent at that time or later."""
        low, high = 0, (self._newest_below(tx, LAST_SEQ) or 0) + 1
        while low < high:
            middle = (low + high) // 2
            found = tx.rows(self._sql["first_from"], {"seq": middle})
            if found and found[0][1] < at_us:
                low = found[0][0] + 1
            else:
                high = middle
        return low


def _ways(selection: Selection) -> tuple[str, ...]:
    """Which queries together give all that is selected, each in turn and without what another has."""
    has_inbox = selection.inbox is not None
    match selection.state:
        case None if selection == Selection():
            return ("as_it_comes",)
        case MessageState.ERR | MessageState.DEAD:
            return ("of_failed_in",) if has_inbox else ("of_failed",)
        case MessageState.ACK:
            return ("of_live_in",) if has_inbox else ("of_claimed",)
        case MessageState.NEW if has_inbox:
            return ("of_live_in", "of_due_in")
    return ("of_own_in",) if _is_own(selection.inbox) else ("of_all",)


def _is_own(inbox: str | None) -> bool:
    """Whether it is one that the index `message_own` knows."""
    return inbox is not None and (inbox.startswith((ACTORS, "notify:")) or inbox == "desk-rehearsals")


def _is_indexed(selection: Selection) -> bool:
    """Whether the ways give just what is selected, so that none of it has to be looked for."""
    match _ways(selection):
        case ("of_all",):
            return False
        case ("of_claimed",):
            return True  # never more than there are hands
    return selection == Selection(inbox=selection.inbox, state=selection.state)


def _given(selection: Selection) -> dict[str, Any]:
    since, until = selection.since, selection.until
    return {
        "inbox": selection.inbox,
        "state": selection.state,
        "function": selection.function,
        "owner": selection.owner,
        "since": None if since is None else to_micros(since),
        "until": None if until is None else to_micros(until),
    }
