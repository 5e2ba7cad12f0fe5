"""Puts failures into groups, and lets people hear of groups that are new or back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from towpath.db import Transaction
from towpath.desk.fingerprint import Fingerprint
from towpath.desk.group import happened
from towpath.desk.group_store import GroupStore, Seen
from towpath.desk.told import Told
from towpath.notify.notice import Notice, NoticeKind, Teller

MOST_TOLD = 20  # groups of one portion that people hear of one by one


@dataclass(slots=True)
class _Counted:
    fingerprint: Fingerprint
    cases: int
    first_at: int
    last_at: int


class Grouping:
    """The group of each fingerprint, made when it is new. What it costs does not depend on how many cases there are."""

    def __init__(self, groups: GroupStore, teller: Teller) -> None:
        self._groups = groups
        self._teller = teller

    def of(self, tx: Transaction, flow: str, told: Iterable[Told]) -> dict[str, int]:
        """The groups of some failures, by the text of the fingerprint; they count these failures."""
        counted = _counted(told)
        first = min((each.first_at for each in counted), default=0)
        leads, made = self._groups.of_fingerprints(tx, flow, [each.fingerprint for each in counted], first)
        seen: dict[int, Seen] = {}
        for each in counted:
            group = leads[each.fingerprint.text]
            before = seen.get(group, Seen(group, 0, each.first_at, each.last_at))
            times = min(before.first_at, each.first_at), max(before.last_at, each.last_at)
            seen[group] = Seen(group, before.cases + each.cases, *times)
        back = self._groups.see(tx, list(seen.values()))
        titles = {leads[each.fingerprint.text]: _headline(each.fingerprint) for each in counted}
        self._tell(tx, NoticeKind.GROUP_FOUND, flow, {id: titles[id] for id in made})
        self._tell(tx, NoticeKind.GROUP_REGRESSED, flow, {group.id: group.headline for group in back})
        return leads

    def _tell(self, tx: Transaction, kind: NoticeKind, flow: str, titles: Mapping[int, str]) -> None:
        what = "is new" if kind is NoticeKind.GROUP_FOUND else "is back"
        for id, title in list(titles.items())[:MOST_TOLD]:
            data = {"flow": flow, "group": id, "title": title}
            self._teller.tell(tx, Notice(kind, f"{flow}/{id}", f"group {id} of {flow} {what}: {title}", data))
        more = len(titles) - MOST_TOLD
        if more > 0:
            data = {"flow": flow, "groups": more}
            self._teller.tell(tx, Notice(kind, flow, f"{more} more groups of {flow}: each {what}", data))


def _headline(fingerprint: Fingerprint) -> str:
    return happened(fingerprint.exception, fingerprint.title)


def _counted(told: Iterable[Told]) -> list[_Counted]:
    found: dict[str, _Counted] = {}
    for each in told:
        at, text = each.failed_at, each.fingerprint.text
        known = found.get(text)
        if known is None:
            found[text] = _Counted(each.fingerprint, 1, at, at)
        else:
            known.cases += 1
            known.first_at = min(known.first_at, at)
            known.last_at = max(known.last_at, at)
    return list(found.values())
