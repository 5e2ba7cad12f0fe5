"""Cases as people see them: listed, counted, searched, and shown with all that is known of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from towpath.db import Transaction
from towpath.desk.cases.model import Body, Case, CaseSelection, PastAttempt, has_hidden_search, matches
from towpath.desk.cases.store import Due, HistoryRow
from towpath.desk.edit_body import BodyDifference, diff
from towpath.desk.edits import CHANGES, SeenCase
from towpath.desk.groups.model import Group
from towpath.desk.masks import MASK, NO_MASKS, Mask, Masks
from towpath.errors import FieldsMasked, OffsetOutOfRange, TopicReplaced, UnknownPartition, UnknownTopic
from towpath.log.record import Headers, Record

if TYPE_CHECKING:
    from towpath.desk.context import DeskContext
    from towpath.desk.edits import Edit


MOST_SEARCHED = 10_000  # cases that one page looks through for somebody who may not see all of them
FIRST_DUE: Due = (-1, 0)
WITHOUT_END = float("inf")
_PORTION = 200


class CasePage(NamedTuple):
    """Some cases, newest first, and where the next page begins; None: there is none."""

    cases: list[Case]
    next: int | None


@dataclass(frozen=True, slots=True)
class EditView:
    """An edit, and what it changed in the record itself."""

    edit: Edit
    changes: tuple[BodyDifference, ...]


@dataclass(frozen=True, slots=True)
class CaseView:
    """A case with all that is known of it. Without a body it is settled, or a gap."""

    case: Case
    group: Group
    attempts: tuple[PastAttempt, ...]
    value: bytes | None  # what goes out next
    headers: Headers
    edits: tuple[EditView, ...]
    history: tuple[HistoryRow, ...]
    is_masked: bool  # something of it is hidden

    @property
    def seen(self) -> SeenCase:
        """What an edit made after this look is held to."""
        return SeenCase(self.case.state, self.case.attempts, max((each.edit.edit for each in self.edits), default=0))


class CaseQueries:
    """Reads cases and changes nothing. `masks` says what the person may not see."""

    def __init__(self, parts: DeskContext) -> None:
        self._parts = parts

    def find(self, text: str) -> Case:
        """By its number, its id or a unique beginning of that; raises `UnknownCase`."""
        with self._parts.database.read() as tx:
            return self._parts.cases.find(tx, text)

    def page(
        self,
        selection: CaseSelection,
        *,
        limit: int = 50,
        before: int | None = None,
        masks: Masks = NO_MASKS,
        look_s: float = WITHOUT_END,
    ) -> CasePage:
        """The newest first. For somebody who may not see all, a search finds only what that person can see.

        What no index gives is looked for no longer than `look_s`: then a page may be short and have a `next`.
        """
        if masks and has_hidden_search(selection):
            return self._searched(selection, limit, before, masks)
        with self._parts.database.read() as tx:
            found = self._parts.cases.search(tx, selection, limit, before, look_s)
            return CasePage(self._masked(tx, found.items, masks), found.next)

    def _searched(self, selection: CaseSelection, limit: int, before: int | None, masks: Masks) -> CasePage:
        found: list[Case] = []
        for _ in range(0, MOST_SEARCHED, _PORTION):
            with self._parts.database.read() as tx:
                portion = self._parts.cases.page(tx, selection, _PORTION, before)
                shown = self._masked(tx, portion, masks)
                bodies = self._values(tx, portion)
            for case in shown:
                value = masks.of(case.flow).value(bodies.get(case.id))
                if matches(selection, case.message, value):
                    found.append(case)
                    if len(found) == limit:
                        return CasePage(found, case.seq)
            if len(portion) < _PORTION:
                return CasePage(found, None)
            before = portion[-1].seq
        return CasePage(found, before)

    def older(self, seq: int, selection: CaseSelection, *, masks: Masks = NO_MASKS) -> Case | None:
        """The next one of a list, which is older."""
        return next(iter(self.page(selection, limit=1, before=seq, masks=masks).cases), None)

    def newer(self, seq: int, selection: CaseSelection, *, masks: Masks = NO_MASKS) -> Case | None:
        """The one before it, which is newer. What is hidden from the person is looked for in a few cases only."""
        is_hidden = bool(masks) and has_hidden_search(selection)
        with self._parts.database.read() as tx:
            found = self._parts.cases.newer(tx, selection, _PORTION if is_hidden else 1, seq)
            shown = self._masked(tx, found, masks)
            bodies = self._values(tx, found) if is_hidden else {}
        seen = (
            case
            for case in shown
            if not is_hidden or matches(selection, case.message, masks.of(case.flow).value(bodies.get(case.id)))
        )
        return next(seen, None)

    def waiting(
        self, flow: str, lane: int, *, limit: int = 50, after: Due = FIRST_DUE, masks: Masks = NO_MASKS
    ) -> list[Case]:
        """What waits in a lane, by when it is due; `after` is that time and the number of the last one shown before."""
        with self._parts.database.read() as tx:
            return self._masked(tx, self._parts.cases.waiting_in(tx, flow, lane, limit, after), masks)

    def parked_behind(self, case_id: str, *, limit: int = 10, masks: Masks = NO_MASKS) -> list[Case]:
        """What waits for a case to be settled, since it is of the same key."""
        with self._parts.database.read() as tx:
            return self._masked(tx, self._parts.cases.parked_behind(tx, case_id, limit), masks)

    def count(self, selection: CaseSelection, *, most: int | None = None, masks: Masks = NO_MASKS) -> int:
        """How many there are; with `most`, that number stands for it and everything above."""
        if masks and has_hidden_search(selection):
            raise FieldsMasked("some fields are masked for you: what a search finds in them cannot be counted")
        with self._parts.database.read() as tx:
            return self._parts.cases.count(tx, selection, most)

    def show(self, case_id: str, *, masks: Masks = NO_MASKS) -> CaseView:
        """One case with its attempts, body, edits and history; raises `UnknownCase`."""
        with self._parts.database.read() as tx:
            case = self._parts.cases.read(tx, case_id)
            group = self._parts.groups.read(tx, case.group_id)
            attempts = self._parts.attempts.of_case(tx, case.id)
            body = self._parts.cases.bodies(tx, [case.id]).get(case.id)
            original = self._parts.cases.originals(tx, [case.id]).get(case.id)
            edits = self._parts.edits.of_case(tx, case.id)
            history = self._parts.history.of_case(tx, case.id)
        mask = masks.of(case.flow)
        value, first = self.value(body), self.value(original)
        headers = () if body is None else body.headers
        hidden = _Hidden(mask, (value, first, *(each.value for each in edits)), case.key, headers)
        return CaseView(
            hidden.case(case),
            group if not mask else replace(group, title=hidden.said(group.title)),
            tuple(hidden.attempt(each) for each in attempts),
            mask.value(value),
            hidden.header_values(),
            tuple(_edit_view(each, first, hidden, history) for each in edits),
            tuple(map(hidden.done, history)),
            bool(mask),
        )

    def body(self, case_id: str, *, masks: Masks = NO_MASKS) -> bytes | None:
        """The whole body that goes out next; None when there is none any more."""
        with self._parts.database.read() as tx:
            case = self._parts.cases.read(tx, case_id)
            body = self._parts.cases.bodies(tx, [case.id]).get(case.id)
        return masks.of(case.flow).value(self.value(body))

    def contents(self, cases: Sequence[Case], *, masks: Masks = NO_MASKS) -> dict[str, tuple[bytes | None, Headers]]:
        """Bodies and headers of several cases, as far as they have any and the person may see them."""
        with self._parts.database.read() as tx:
            bodies = self._bodies(tx, cases)
        found = {}
        for case in cases:
            if (body := bodies.get(case.id)) is not None:
                mask, value = masks.of(case.flow), self.value(body)
                found[case.id] = mask.value(value), _Hidden(mask, (value,), case.key, body.headers).header_values()
        return found

    def _bodies(self, tx: Transaction, cases: Sequence[Case]) -> dict[str, Body]:
        """The bodies of several cases, as they go out."""
        return self._parts.cases.bodies(tx, [case.id for case in cases])

    def value(self, body: Body | None) -> bytes | None:
        """The bytes of a body, also of one that lies in a file; None when that file is not to be had here."""
        try:
            return None if body is None else body.read(self._parts.blobs.read)
        except OSError:
            return None

    def record(self, case: Case, *, masks: Masks = NO_MASKS) -> Record | None:
        """The error record at its offset, while the log has it."""
        place = (case.error_topic, case.error_partition, case.error_offset)
        try:
            found = self._parts.log().record(*place)
        except (UnknownTopic, UnknownPartition, OffsetOutOfRange, TopicReplaced):
            return None
        mask = masks.of(case.flow)
        if found is None or not mask:
            return found
        with self._parts.database.read() as tx:
            original = self._parts.cases.originals(tx, [case.id]).get(case.id)
        # A large value is not in the error record, but its message is.
        hidden = _Hidden(mask, (found.value or None, self.value(original)), found.key, found.headers)
        return found._replace(value=mask.value(found.value), key=mask.key(found.key), headers=hidden.header_values())

    def said(self, texts: Mapping[str, str], *, masks: Masks) -> dict[str, str]:
        """What was said about records, by the ids of their cases, without what is hidden in them."""
        if not masks:
            return dict(texts)
        with self._parts.database.read() as tx:
            cases = self._parts.cases.some(tx, list(texts))
            said = [replace(case, message=texts[case.id]) for case in cases.values()]
            shown = {case.id: case for case in self._masked(tx, said, masks)}
        return {id: shown[id].message if id in shown else MASK for id in texts}

    def _masked(self, tx: Transaction, cases: Sequence[Case], masks: Masks) -> list[Case]:
        """With what was said about hidden fields hidden as well, which takes their bodies."""
        hidden = [case for case in cases if masks.of(case.flow)]
        if not hidden:
            return list(cases)
        # What was said is about the record as it was, or about an edit that went out.
        bodies = self._bodies(tx, hidden)
        originals = self._parts.cases.originals(tx, [case.id for case in hidden])

        def shown(case: Case) -> Case:
            known = [found[case.id] for found in (bodies, originals) if case.id in found]
            headers = known[0].headers if known else ()
            return _Hidden(masks.of(case.flow), tuple(map(self.value, known)), case.key, headers).case(case)

        return [shown(case) for case in cases]

    def _values(self, tx: Transaction, cases: Sequence[Case]) -> Mapping[str, bytes | None]:
        return {case_id: self.value(body) for case_id, body in self._bodies(tx, cases).items()}


class _Hidden(NamedTuple):
    """One record with a mask: shows what is known of it without what is hidden."""

    mask: Mask
    values: tuple[bytes | None, ...]
    key: bytes | None
    headers: Headers

    def said(self, text: str) -> str:
        return self.mask.text(text, self.values, self.key, self.headers) if self.mask else text

    def header_values(self) -> Headers:
        return self.mask.header_values(self.headers, self.values, self.key) if self.mask else self.headers

    def case(self, case: Case) -> Case:
        if not self.mask:
            return case
        return replace(case, message=self.said(case.message), key=self.mask.key(case.key))

    def attempt(self, attempt: PastAttempt) -> PastAttempt:
        if not self.mask:
            return attempt
        return replace(attempt, message=self.said(attempt.message), trace=self.said(attempt.trace))

    def done(self, done: HistoryRow) -> HistoryRow:
        if not self.mask:
            return done
        data = {name: value for name, value in done.data.items() if name != CHANGES}
        return replace(done, why=self.said(done.why), data=data)


def _edit_view(edit: Edit, original: bytes | None, hidden: _Hidden, history: Sequence[HistoryRow]) -> EditView:
    """What it changed; of a settled case, whose body was let go, as the history has it."""
    mask = hidden.mask
    value = mask.value(edit.value)
    if original is not None:
        changes = diff(mask.value(original) or b"", value or b"")
    else:
        told = [each.data.get(CHANGES, ()) for each in history if each.data.get("edit") == edit.edit and not mask]
        changes = [BodyDifference(*change) for changed in told for change in changed]
    # A rule quotes in its reason what it has changed.
    return EditView(replace(edit, value=value or MASK.encode(), why=hidden.said(edit.why)), tuple(changes))
