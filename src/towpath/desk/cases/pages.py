"""Lists and counts of cases that stay fast however many cases there are.

An index gives the cases of each flow or group in each state in order; these are merged. The table `desk_tally` counts
the cases of each group in each state and is kept in step with them.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from heapq import merge
from itertools import islice
from typing import Any

from towpath.core.clock import to_micros
from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row
from towpath.db.paging import SearchPage, cut, search
from towpath.desk.cases.model import Case, CaseSelection, CaseState

Tally = Counter[CaseState]
Changes = Counter[tuple[int, CaseState]]  # by group and state

LAST_SEQ = (1 << 63) - 1
MOST_GROUPS = 64  # that are read one by one; with more, their flows are read and what does not fit is passed over
NO_END = 1 << 62
# How the names of queries begin: for what an index gives, and for what is filtered.
_PAGE, _KEYS = ("page", "found"), ("keys", "found_keys")
Stream = tuple[str, dict[str, Any]]  # the end of a query's name, and what it is given


class CasePages:
    """Reads pages and counts inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = Queries("towpath.desk.cases", "cases", database.dialect)
        self._groups = Queries("towpath.desk.groups", "groups", database.dialect)
        self._tallies = TallyStore(database)

    def page(self, tx: Transaction, selection: CaseSelection, limit: int, before: int | None = None) -> list[Case]:
        """The newest first; `before` is the `seq` of the last one of the page before."""
        return [Case.from_row(row) for row in self._merged(tx, selection, _bounds(limit, before), _PAGE)]

    def search(
        self, tx: Transaction, selection: CaseSelection, limit: int, before: int | None, look_s: float
    ) -> SearchPage[Case]:
        """As many as are found in a moment: where no index gives them, a page may be short and have a `next`."""
        if _is_plain(selection) or selection.ids is not None:
            return cut(self.page(tx, selection, limit + 1, before), limit)

        def read(below: int, floor: int, most: int) -> list[Case]:
            bounds = {"before": below, "floor": floor, "limit": most}
            return [Case.from_row(row) for row in self._merged(tx, selection, bounds, _PAGE)]

        def newest_below(below: int) -> int | None:
            newest: int | None = tx.rows(self._sql["newest_below"], {"below": below})[0][0]
            return newest

        return search(read, newest_below, limit=limit, before=before, look_s=look_s)

    def keys(self, tx: Transaction, selection: CaseSelection, limit: int, before: int | None) -> list[Row]:
        """Only number and id of each: to write down which they are."""
        return self._merged(tx, selection, _bounds(limit, before), _KEYS)

    def newer(self, tx: Transaction, selection: CaseSelection, limit: int, after: int) -> list[Case]:
        """What comes after a number, the oldest first."""
        given = {**_filters(selection), "after": after, "limit": limit}
        pages = self._pages(tx, selection, "newer", given)
        return [Case.from_row(row) for row in islice(merge(*pages, key=lambda row: int(row[0])), limit)]

    def _merged(
        self, tx: Transaction, selection: CaseSelection, bounds: dict[str, Any], queries: tuple[str, str]
    ) -> list[Row]:
        plain, found = queries
        if _is_plain(selection):
            pages = self._pages(tx, selection, plain, bounds)
        else:
            pages = self._pages(tx, selection, found, {**bounds, **_filters(selection)})
        if len(full := [page for page in pages if page]) == 1:
            return full[0]
        return list(islice(merge(*full, key=lambda row: -int(row[0])), bounds["limit"]))

    def _pages(self, tx: Transaction, selection: CaseSelection, query: str, given: dict[str, Any]) -> list[list[Row]]:
        """The rows of each stream; `query` is how the name of the query begins."""
        streams = list(self._streams(tx, selection))
        tx.run(self._sql["read_in_order"], {})
        pages = [tx.rows(self._sql[f"{query}_{end}"], {**given, **which}) for end, which in streams]
        tx.run(self._sql["read_as_usual"], {})
        return pages

    def count(self, tx: Transaction, selection: CaseSelection, most: int | None = None) -> int:
        """How many there are; with `most`, that number stands for it and everything above."""
        if _is_tallied(selection):
            found = self._tallies.count(tx, selection.flow, _states(selection))
            return found if most is None else min(found, most)
        filters, found = _filters(selection), 0
        for end, given in self._streams(tx, selection):
            left = NO_END if most is None else most - found
            if left > 0:
                found += tx.rows(self._sql[f"count_{end}"], {**filters, **given, "limit": left})[0][0]
        return found

    def _streams(self, tx: Transaction, selection: CaseSelection) -> Iterator[Stream]:
        """What together holds all that is selected, each in order and without what another has."""
        states = _states(selection)
        named = {"states": json.dumps(states)}
        groups = self._groups_of(tx, selection)
        if selection.ids is not None:
            listed = None if selection.group is None else json.dumps(groups)
            yield "of_ids", {**named, "ids": json.dumps(list(selection.ids)), "groups": listed}
        elif selection.assignee is not None and selection.group is None:
            yield "of_assignee", named
        elif groups is not None:
            tallies = self._tallies.of(tx, groups)  # a query for each state of each group would cost more than it finds
            for group, tally in sorted(tallies.items()):
                yield from (("of_group", {"group": group, "state": state}) for state in states if tally[state])
        elif selection.flow is None and selection.states is None:
            yield "of_all", {}
        else:
            for flow in self._flows(tx) if selection.flow is None else [selection.flow]:
                yield from (("of_flow", {"flow": flow, "state": state}) for state in states)

    def _groups_of(self, tx: Transaction, selection: CaseSelection) -> list[int] | None:
        """The groups that can hold what is selected; None: that does not narrow it, or not enough."""
        if selection.group is not None:
            return [id for (id,) in tx.rows(self._groups["with_merged"], {"id": selection.group})]
        if selection.step is None and selection.code is None and selection.exception is None:
            return None
        wanted = {name: getattr(selection, name) for name in ("flow", "step", "code", "exception")}
        found = [id for (id,) in tx.rows(self._groups["that_may_hold"], {**wanted, "limit": MOST_GROUPS + 1})]
        return found if len(found) <= MOST_GROUPS else None

    def _flows(self, tx: Transaction) -> list[str]:
        return [flow for (flow,) in tx.rows(self._sql["flows_with_cases"], {})]


class TallyStore:
    """Reads and changes tallies inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.desk.cases", "tallies", database.dialect)

    def add(self, tx: Transaction, changes: Mapping[tuple[int, CaseState], int]) -> None:
        """Groups have so many more or fewer; in one order, so that two never wait for each other in a circle."""
        wanted = sorted((key, more) for key, more in changes.items() if more)
        if not wanted:
            return
        groups, states = zip(*(key for key, _ in wanted), strict=True)
        named = {"groups": json.dumps(sorted({*groups})), "states": json.dumps(sorted({*states}))}
        there = {(group, state) for group, state in tx.rows(self._sql["lock_tallies"], named)}
        if missing := [key for key, _ in wanted if key not in there]:
            tx.run(self._sql["make_tallies"], {"rows": json.dumps(missing)})
        rows = [(group, state, more) for (group, state), more in wanted]
        tx.run(self._sql["add_to_tallies"], {"rows": json.dumps(rows)})

    def of(self, tx: Transaction, groups: Collection[int]) -> dict[int, Tally]:
        """By group; one that has no cases is not in it."""
        found: dict[int, Tally] = defaultdict(Counter)
        for group, state, cases in tx.rows(self._sql["tallies"], {"groups": json.dumps(sorted(groups))}):
            if cases:
                found[group][CaseState(state)] = cases
        return dict(found)

    def count(self, tx: Transaction, flow: str | None, states: Collection[CaseState]) -> int:
        """How many cases a flow, or all of them, have in some states."""
        params = {"flow": flow, "states": json.dumps(sorted(states))}
        return int(tx.rows(self._sql["count_by_tallies"], params)[0][0])


def _bounds(limit: int, before: int | None) -> dict[str, Any]:
    return {"before": LAST_SEQ if before is None else before, "floor": 0, "limit": limit}


def _states(selection: CaseSelection) -> list[CaseState]:
    return list(CaseState) if selection.states is None else list(selection.states)


def _is_plain(selection: CaseSelection) -> bool:
    """Whether an index alone gives it."""
    flow, group, states = selection.flow, selection.group, selection.states
    return selection == CaseSelection(flow=flow, states=states) or selection == CaseSelection(
        group=group, states=states
    )


def _is_tallied(selection: CaseSelection) -> bool:
    """Whether nothing is asked that tallies do not know."""
    return selection == CaseSelection(flow=selection.flow, states=selection.states)


def _filters(selection: CaseSelection) -> dict[str, Any]:
    since, until = selection.since, selection.until
    return {
        "flow": selection.flow,
        "stage": selection.stage,
        "step": selection.step,
        "code": selection.code,
        "exception": selection.exception,
        "fingerprint": selection.fingerprint,
        "assignee": selection.assignee,
        "text": selection.text,
        "body": None if selection.body is None else selection.body.encode(),
        "since": None if since is None else to_micros(since),
        "until": None if until is None else to_micros(until),
    }
