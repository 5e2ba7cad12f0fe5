"""What people do to groups of cases: each change is one transaction, with who and why, a history row and an event."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from towpath.core.events import Event, EventKind
from towpath.db import Transaction
from towpath.db.event_log import check_who, check_why, commit_by_hand
from towpath.desk.actions.actions import JobKind, Regroup
from towpath.desk.actions.service import MOST_AT_ONCE
from towpath.desk.cases.model import CaseSelection
from towpath.desk.cases.store import HistoryEntry, HistoryRow
from towpath.desk.groups.model import Archive, Group, GroupState, KnownFingerprint
from towpath.desk.groups.store import Mark, Trend, newest_first
from towpath.desk.masks import NO_MASKS, Masks
from towpath.errors import BadValue

if TYPE_CHECKING:
    from towpath.desk.actions.jobs import JobService
    from towpath.desk.context import DeskContext


LONGEST_TITLE = 200
_PORTION = 200


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group, why its cases are together, and what was done to it."""

    group: Group
    fingerprints: tuple[KnownFingerprint, ...]
    history: tuple[HistoryRow, ...]


@dataclass(frozen=True, slots=True)
class Split:
    """The group that was made, how many cases went with it at once, and the job that brings the others."""

    group: Group
    moved: int
    job_id: str | None


class GroupActions:
    """Shows groups, and moves, assigns, merges and splits them."""

    def __init__(self, parts: DeskContext, jobs: JobService) -> None:
        self._parts = parts
        self._jobs = jobs

    def page(
        self,
        *,
        flow: str | None = None,
        state: GroupState | None = None,
        code: int | None = None,
        text: str | None = None,
        limit: int = 50,
        before: Mark | None = None,
        masks: Masks = NO_MASKS,
    ) -> list[Group]:
        """The one with the newest error first, each with how many cases it has in each state.

        For somebody who may not see all, a text is not looked for in titles: these are messages of errors.
        """
        found: list[Group] = []
        portion = max(limit, _PORTION) if text is not None and masks else limit
        while True:
            with self._parts.database.read() as tx:
                some = self._parts.groups.page(
                    tx, limit=portion, flow=flow, state=state, code=code, text=text, before=before
                )
            found += [group for group in some if text is None or _is_seen(group, text, masks)]
            if len(some) < portion or len(found) >= limit:
                return found[:limit]
            before = newest_first(some[-1])

    def trends(self, groups: Collection[int]) -> dict[int, Trend]:
        """How many errors came to each of them in each of the last 24 hours, the present hour last."""
        with self._parts.database.read() as tx:
            return self._parts.groups.trends(tx, groups)

    def show(self, id: int) -> GroupView:
        """One of them; raises `UnknownGroup`."""
        with self._parts.database.read() as tx:
            return GroupView(
                self._parts.groups.read(tx, id),
                tuple(self._parts.groups.fingerprints(tx, id)),
                tuple(self._parts.history.of_group(tx, id)),
            )

    def assign(self, id: int, assignee: str | None, *, who: str, why: str) -> Group:
        """Give it to a person, or to nobody."""
        if assignee is not None and not assignee.strip():
            raise BadValue("a group is assigned to a name, or to nobody")

        def act(tx: Transaction) -> Group:
            return self._parts.groups.assign(tx, id, assignee)

        return self._change(id, "assigned", who, why, act, assignee=assignee)

    def note(self, id: int, text: str, *, who: str) -> Group:
        """Keep a remark with it."""
        return self._change(id, "noted", who, text, lambda tx: self._parts.groups.read(tx, id))

    def look(self, id: int, *, who: str, why: str) -> Group:
        """Move it to *ongoing*: someone works on it."""
        return self._move(id, GroupState.ONGOING, who, why)

    def resolve(self, id: int, *, who: str, why: str) -> Group:
        """Its cause is mended; an error that comes now brings it back. Its cases stay as they are."""
        return self._move(id, GroupState.RESOLVED, who, why)

    def archive(self, id: int, archive: Archive, *, who: str, why: str) -> Group:
        """Silence it until so many more cases, a time, or a rate. Its cases stay as they are."""
        return self._move(id, GroupState.ARCHIVED, who, why, archive)

    def merge(self, id: int, into: int, *, who: str, why: str) -> Group:
        """Its cases count as those of another one, and so do errors that come."""

        def act(tx: Transaction) -> Group:
            merged = self._parts.groups.merge(tx, id, into)
            self._tell(tx, into, "took in", who, why, {"group": id})
            return merged

        return self._change(id, "merged", who, why, act, into=into)

    def unmerge(self, id: int, *, who: str, why: str) -> Group:
        """A group that was merged is its own again, with its cases and what has led to it."""

        def act(tx: Transaction) -> Group:
            into = self._parts.groups.read(tx, id).merged_into
            known = [] if into is None else self._parts.groups.fingerprints(tx, into)
            group = self._parts.groups.unmerge(tx, id)
            own = [each.fingerprint for each in known if self._has(tx, id, each.fingerprint)]
            self._parts.groups.point(tx, group.flow, own, id)
            return group

        return self._change(id, "unmerged", who, why, act)

    def _has(self, tx: Transaction, id: int, fingerprint: str) -> bool:
        return self._parts.cases.count(tx, CaseSelection(group=id, fingerprint=fingerprint), 1) > 0

    def split(
        self,
        id: int,
        *,
        who: str,
        why: str,
        ids: Sequence[str] | None = None,
        fingerprint: str | None = None,
        title: str | None = None,
    ) -> Split:
        """Make a group of its own of some cases, or of all of one fingerprint, whose errors go there from now on."""
        check_who(who)
        check_why(why)
        if (ids is None) == (fingerprint is None):
            raise BadValue("a group is split by cases or by a fingerprint: give one of them")
        if title is not None and not 0 < len(title.strip()) <= LONGEST_TITLE:
            raise BadValue(f"a group has a title of 1 to {LONGEST_TITLE} characters")
        selection = CaseSelection(group=id, fingerprint=fingerprint, ids=None if ids is None else tuple(ids))

        def act(tx: Transaction) -> Split:
            new = self._made(tx, id, fingerprint, title)
            count = self._parts.cases.count(tx, selection)
            if ids is not None and count != len(set(ids)):
                raise BadValue(f"{len(set(ids)) - count} of these cases are not in group {id}")
            found = self._parts.cases.page(tx, selection, MOST_AT_ONCE)
            Regroup(self._parts.cases, self._parts.history, new.id).do(tx, found, who, why)
            self._tell(tx, id, "split", who, why, {"into": new.id, "fingerprint": fingerprint})
            self._tell(tx, new.id, "split off", who, why, {"from": id, "fingerprint": fingerprint})
            rest = self._rest(tx, selection, new.id, who, why) if count > len(found) else None
            return Split(self._parts.groups.read(tx, new.id), len(found), rest)

        return commit_by_hand(self._parts.database, act)

    def _made(self, tx: Transaction, id: int, fingerprint: str | None, title: str | None) -> Group:
        old = self._parts.groups.lock(tx, id)
        now = self._parts.database.now()
        new = self._parts.groups.new(tx, old.flow, old.code, old.step, old.exception, title or old.title, now)
        if fingerprint is not None:
            known = {each.fingerprint for each in self._parts.groups.fingerprints(tx, id)}
            if fingerprint not in known:
                raise BadValue(f"group {id} has no fingerprint {fingerprint!r}")
            self._parts.groups.point(tx, old.flow, [fingerprint], new.id)
        return new

    def _rest(self, tx: Transaction, selection: CaseSelection, group: int, who: str, why: str) -> str:
        name, arguments = f"split off group {group}", {"group": group}
        return self._jobs.plan(
            JobKind.REGROUP, selection, who=who, why=why, name=name, arguments=arguments, begin=True, tx=tx
        ).id

    def _move(self, id: int, to: GroupState, who: str, why: str, archive: Archive | None = None) -> Group:
        data = {} if archive is None else {"archive": archive.to_json()}

        def act(tx: Transaction) -> Group:
            return self._parts.groups.move(tx, id, to, archive=archive)

        return self._change(id, to.value, who, why, act, **data)

    def _change(
        self, id: int, what: str, who: str, why: str, change: Callable[[Transaction], Group], **data: Any
    ) -> Group:
        def act(tx: Transaction) -> Group:
            was = self._parts.groups.read(tx, id).state
            group = change(tx)
            self._tell(tx, id, what, who, why, {"was": was, **data})
            return group

        return commit_by_hand(self._parts.database, act)

    def _tell(self, tx: Transaction, id: int, what: str, who: str, why: str, data: dict[str, Any]) -> None:
        self._parts.history.add(tx, [HistoryEntry(what, check_who(who), check_why(why), group_id=id, data=data)])
        event = Event(EventKind.CASE_GROUP_CHANGED_BY_HAND, str(id), who, why, {"what": what, **data})
        self._parts.event_log.record(tx, event)


def _is_seen(group: Group, text: str, masks: Masks) -> bool:
    """Whether what was looked for stands where the person may see it."""
    return not masks.of(group.flow) or text.lower() in f"{group.exception}\n{group.step}".lower()
