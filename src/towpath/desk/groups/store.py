"""The tables `desk_group` and `desk_fingerprint`: which errors are of one cause, and what people think of it.

Groups are locked in the order of their numbers, and before the cases in them. The table `desk_trend` counts how many
errors came to each group in each of the last hours.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from towpath.core.clock import MICROS, to_micros
from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row, storable
from towpath.desk.cases.pages import TallyStore
from towpath.desk.groups.model import MOVES, Archive, Fingerprint, Group, GroupState, KnownFingerprint
from towpath.errors import BadValue, DatabaseUnavailable, IllegalGroupMove, UnknownGroup

HOUR_US = 3600 * MICROS
HOURS = 24  # that are shown
KEPT_HOURS = 48
Trend = tuple[int, ...]  # the oldest hour first, the present one last

LAST_TIME = (1 << 63) - 1
_COMES_BACK = (GroupState.RESOLVED, GroupState.ARCHIVED)
Mark = tuple[datetime, int]  # `last_at` and `id` of the last group of a page


class GroupStore:
    """Reads and moves groups inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = Queries("towpath.desk.groups", "groups", database.dialect)
        self._tallies = TallyStore(database)
        self._trends = TrendStore(database)

    # Reading

    def read(self, tx: Transaction, id: int) -> Group:
        """One of them, with its tallies; raises `UnknownGroup`."""
        return self._tallied(tx, [self._one(tx, "read_group", id)])[0]

    def lock(self, tx: Transaction, id: int) -> Group:
        """One of them, which nobody else changes until the transaction ends; raises `UnknownGroup`."""
        return self._tallied(tx, [self._one(tx, "lock_group", id)])[0]

    def page(
        self,
        tx: Transaction,
        *,
        limit: int,
        flow: str | None = None,
        state: GroupState | None = None,
        code: int | None = None,
        text: str | None = None,
        before: Mark | None = None,
    ) -> list[Group]:
        """The one with the newest error first, without those that were merged into others.

        `text` stands somewhere in title, exception or step, in large or small letters.
        """
        last_at, id = (LAST_TIME, 0) if before is None else (to_micros(before[0]), before[1])
        bounds = {"limit": limit, "last_at": last_at, "id": id}
        if code is not None or text is not None:
            asked = {"flow": flow, "state": state, "code": code, "text": text}
            return self._tallied(tx, tx.rows(self._sql["found_groups"], {**bounds, **asked}))
        which = {name: value for name, value in (("flow", flow), ("state", state)) if value is not None}
        ends = {(): "", ("flow",): "_of_flow", ("state",): "_in_state", ("flow", "state"): "_of_flow_in_state"}
        return self._tallied(tx, tx.rows(self._sql[f"page_of_groups{ends[tuple(which)]}"], {**bounds, **which}))

    def trends(self, tx: Transaction, ids: Collection[int]) -> dict[int, Trend]:
        """How many errors came to each group in each of the last hours, with those of groups merged into it."""
        merged = tx.rows(self._sql["merged_into"], {"groups": json.dumps(list(ids))}) if ids else []
        own = {id: id for id in ids} | {id: into for into, id in merged}
        sums = {id: [0] * HOURS for id in ids}
        for group, hours in self._trends.of(tx, own).items():
            sums[own[group]] = [one + other for one, other in zip(sums[own[group]], hours, strict=True)]
        return {id: tuple(hours) for id, hours in sums.items()}

    def fingerprints(self, tx: Transaction, id: int) -> list[KnownFingerprint]:
        """What leads to a group, and what it was made of: why its cases are together."""
        rows = tx.rows(self._sql["fingerprints_of"], {"groups": json.dumps([id])})
        return [KnownFingerprint.from_row(row) for row in rows]

    # Where errors go

    def of_fingerprints(
        self, tx: Transaction, flow: str, wanted: Collection[Fingerprint], at: int
    ) -> tuple[dict[str, int], list[int]]:
        """The groups of some fingerprints, and which of them are new: made now, in the order given.

        `at` is when the first of their errors was, or before that; `see` says when each was.
        """
        named = {"flow": flow, "fingerprints": json.dumps([each.text for each in wanted])}
        known: dict[str, int] = dict(tx.rows(self._sql["known_fingerprints"], named)) if wanted else {}
        strange = [each for each in wanted if each.text not in known]
        if not strange:
            return known, []
        made = self._make(tx, flow, strange, at)
        return known | {each.text: id for each, id in zip(strange, made, strict=True)}, made

    def _make(self, tx: Transaction, flow: str, fingerprints: Sequence[Fingerprint], at: int) -> list[int]:
        rows = [[each.code, each.step, each.exception, storable(each.title)] for each in fingerprints]
        said = {"flow": flow, "state": GroupState.NEW, "at": at, "rows": json.dumps(rows)}
        made = sorted(id for (id,) in tx.rows(self._sql["make_groups"], said))
        leads = [[each.text, each.algorithm, id, each.made_of] for each, id in zip(fingerprints, made, strict=True)]
        added = tx.rows(self._sql["add_fingerprints"], {"flow": flow, "rows": json.dumps(leads)})
        if len(added) < len(made):
            raise DatabaseUnavailable(f"somebody else has just made a group for errors of {flow}; nothing was written")
        return made

    def new(self, tx: Transaction, flow: str, code: int, step: str, exception: str, title: str, at: int) -> Group:
        """A group without cases and fingerprints."""
        said = {"flow": flow, "code": code, "step": step, "exception": exception, "title": storable(title)}
        return Group.from_row(tx.rows(self._sql["make_group"], {**said, "state": GroupState.NEW, "at": at})[0])

    def see(self, tx: Transaction, seen: Sequence[GroupArrivals]) -> list[Group]:
        """Errors have come to groups, which others cannot change now; returns those that are back by that."""
        by_id = {each.group_id: each for each in seen}
        before = self._locked(tx, by_id) if by_id else []
        if len(before) < len(by_id):
            raise DatabaseUnavailable("a group was deleted just now, since it was empty; nothing was written")
        now = self._database.now()
        after = {group.id: _after(group, by_id[group.id].cases, now) for group in before}
        told = [
            [*by_id[id], state, None if archive is None else archive.to_json()]
            for id, (state, archive) in after.items()
        ]
        if told:
            tx.run(self._sql["see_groups"], {"rows": json.dumps(told)})
            self._trends.add(tx, [(each.group_id, each.cases, each.last_at) for each in by_id.values()])
        return [group for group in before if after[group.id][0] is not group.state]

    # By persons

    def move(self, tx: Transaction, id: int, to: GroupState, *, archive: Archive | None = None) -> Group:
        """Raises `UnknownGroup` or `IllegalGroupMove`. *Archived* says until when; without, for ever."""
        sources = sorted(state for state, targets in MOVES.items() if to in targets)
        until = json.dumps((archive or Archive()).to_json()) if to is GroupState.ARCHIVED else None
        rows = tx.rows(self._sql["move_group"], {"id": id, "to": to, "archive": until, "states": json.dumps(sources)})
        if not rows:
            raise IllegalGroupMove(id, self.read(tx, id).state, to, sources)
        return self._tallied(tx, rows)[0]

    def assign(self, tx: Transaction, id: int, assignee: str | None) -> Group:
        """Assign a group to a person, or to nobody; raises `UnknownGroup`."""
        rows = tx.rows(self._sql["group_assign"], {"id": id, "assignee": assignee})
        if not rows:
            raise UnknownGroup(id)
        return self._tallied(tx, rows)[0]

    def merge(self, tx: Transaction, id: int, into: int) -> Group:
        """All cases of a group count as those of another, and new errors go there. No case is touched."""
        if id == into:
            raise BadValue(f"group {id} cannot be merged into itself")
        both = {group.id: group for group in self._locked(tx, (id, into))}
        for wanted in (id, into):
            if wanted not in both:
                raise UnknownGroup(wanted)
        if both[id].flow != both[into].flow:
            raise BadValue(f"group {id} is of flow {both[id].flow!r}, group {into} of {both[into].flow!r}")
        if not tx.rows(self._sql["merge_group"], {"id": id, "into": into}):
            raise BadValue(f"group {id} or group {into} was merged into another one before")
        tx.run(self._sql["carry_along"], {"id": id, "into": into})
        tx.run(self._sql["point_all"], {"group": into, "from_group": id})
        return self.read(tx, into)

    def unmerge(self, tx: Transaction, id: int) -> Group:
        """A group that was merged is its own again, with its cases; fingerprints are pointed to it by `point`."""
        rows = tx.rows(self._sql["unmerge_group"], {"id": id})
        if not rows:
            raise BadValue(f"group {self.read(tx, id).id} was not merged into another one")
        return self._tallied(tx, rows)[0]

    def point(self, tx: Transaction, flow: str, fingerprints: Collection[str], group: int) -> list[str]:
        """Errors of these fingerprints go to that group from now on; what is there stays where it is."""
        params = {"flow": flow, "fingerprints": json.dumps(list(fingerprints)), "group": group}
        return [text for (text,) in tx.rows(self._sql["point_fingerprints"], params)]

    def _locked(self, tx: Transaction, ids: Iterable[int]) -> list[Group]:
        return [Group.from_row(row) for row in tx.rows(self._sql["lock_groups"], {"groups": json.dumps(sorted(ids))})]

    def _one(self, tx: Transaction, query: str, id: int) -> Row:
        rows = tx.rows(self._sql[query], {"id": id})
        if not rows:
            raise UnknownGroup(id)
        return rows[0]

    def _tallied(self, tx: Transaction, rows: Sequence[Row]) -> list[Group]:
        """With the cases of what was merged into them."""
        ids = [row[0] for row in rows]
        merged: dict[int, list[int]] = defaultdict(list)
        if ids:
            for into, id in tx.rows(self._sql["merged_into"], {"groups": json.dumps(ids)}):
                merged[into].append(id)
        tallies = self._tallies.of(tx, [*ids, *(id for each in merged.values() for id in each)]) if ids else {}
        return [
            Group.from_row(row, sum((tallies.get(id, Counter()) for id in (row[0], *merged[row[0]])), Counter()))
            for row in rows
        ]


class GroupArrivals(NamedTuple):
    """What has come to one group at once; times are in microseconds."""

    group_id: int
    cases: int
    first_at: int
    last_at: int


def _after(group: Group, cases: int, now: int) -> tuple[GroupState, Archive | None]:
    """What a group is when so many cases have come to it."""
    if group.state not in _COMES_BACK:
        return group.state, None
    left = None if group.archive is None else group.archive.after(cases, now)
    return (GroupState.REGRESSED, None) if left is None else (group.state, left)


def newest_first(group: Group) -> Mark:
    """Where the page after this group goes on."""
    return group.last_at, group.id


class TrendStore:
    """Counts errors by group and hour, inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = Queries("towpath.desk.groups", "trends", database.dialect)

    def add(self, tx: Transaction, seen: Iterable[tuple[int, int, int]]) -> None:
        """Errors have come; of each: group, how many, when the last of them was. The groups must be locked."""
        oldest = self._oldest_us()
        rows = [(group, at_us // HOUR_US, cases) for group, cases, at_us in seen if at_us >= oldest]
        if rows:
            tx.run(self._sql["add_to_trends"], {"rows": json.dumps(rows)})

    def of(self, tx: Transaction, groups: Collection[int]) -> dict[int, Trend]:
        """By group; one without errors in these hours is not in it."""
        last = self._database.now() // HOUR_US
        first = last - HOURS + 1
        found: dict[int, list[int]] = defaultdict(lambda: [0] * HOURS)
        for group, hour, cases in tx.rows(self._sql["trends"], {"groups": json.dumps(sorted(groups)), "since": first}):
            if hour <= last:  # another machine's clock may be ahead
                found[group][hour - first] = int(cases)
        return {group: tuple(hours) for group, hours in found.items()}

    def forget(self, tx: Transaction, limit: int) -> int:
        """Delete some hours that nobody looks at any more; returns how many."""
        before = self._oldest_us() // HOUR_US
        return tx.run(self._sql["forget_trends"], {"before": before, "limit": limit})

    def forget_groups(self, tx: Transaction, groups: Collection[int]) -> None:
        """Delete the hours of groups that are gone."""
        tx.run(self._sql["forget_trends_of"], {"groups": json.dumps(sorted(groups))})

    def _oldest_us(self) -> int:
        return self._database.now() - KEPT_HOURS * HOUR_US
