"""The tables of cases: `desk_case`, `desk_body`, `desk_attempt`, `desk_trace` and `desk_history`.

`CaseStore` inserts and moves cases and keeps tallies, history and held keys in step; `AttemptStore` keeps every
failure of every case; `HistoryStore` keeps what people and rules did to cases and groups, and why.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from towpath.core.clock import to_datetime
from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row, storable
from towpath.desk.cases.model import LIVE, MOVES, Body, Case, CaseState, NewAttempt, NewCase, PastAttempt
from towpath.desk.cases.pages import CasePages, Changes
from towpath.errors import UnknownCase
from towpath.flow.delivery.ledger import HeldKeys

_COLUMNS = ("case_id", "group_id", "what", "who", "why", "data", "at")

# In the order of `NewCase`, which comes by the thousand: rows are made of slices.
_CASE = (
    *("id", "flow", "stage", "kind", "group_id", "fingerprint", "state", "code", "step", "exception", "message"),
    *("output", "topic", "topic_id", "partition", "start_offset", "stop_offset", "key", "hash"),
    *("error_topic", "error_partition", "error_offset", "failed_at", "body_bytes", "key_hash", "ticket", "lane"),
    *("due_at", "behind", "rule", "edit", "settled_by", "settled_why", "first_failed_at", "taken_at", "moved_at"),
)
_BODY = ("case_id", "value", "blob", "headers")
_ATTEMPT = (
    *("case_id", "attempt", "code", "step", "exception", "message", "hash", "error_topic", "error_partition"),
    *("error_offset", "failed_at", "trace_id", "version", "process"),
)
# After which the next record of its key may go on.
_DONE = frozenset({CaseState.RESOLVED, CaseState.ABANDONED, CaseState.RESENT, CaseState.IGNORED})
_PREFIX = re.compile(r"[0-9a-f][0-9a-f-]{3,35}")
_UUID = "00000000-0000-0000-0000-000000000000"
Due = tuple[int, int]  # when a case is due, in microseconds, and its number


class CaseStore(CasePages):
    """Reads and moves cases inside a transaction that the caller opens; pages and counts are those of `CasePages`."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._history = HistoryStore(database)
        self._keys = HeldKeys(database)

    # In

    def insert(self, tx: Transaction, cases: Sequence[NewCase]) -> None:
        """New cases with their bodies and first attempts, and the tallies of their groups."""
        if not cases:
            return
        now = self._database.now()
        tx.insert_many("desk_case", _CASE, (_case_row(case, now) for case in cases))
        tx.insert_many("desk_attempt", _ATTEMPT, map(_first_attempt, cases))
        tx.insert_many("desk_body", _BODY, (_body_row(case) for case in cases if case.headers is not None))
        self._tallies.add(tx, Counter((case.group_id, case.state) for case in cases))
        ignored = (case for case in cases if case.key_hash is not None and case.state in _DONE)
        self._keys.settle(tx, ((case.flow, case.stage, case.key_hash or "") for case in ignored))

    def fail_again(self, tx: Transaction, attempts: Sequence[NewAttempt]) -> None:
        """Known cases have failed once more: each gets another attempt, and goes to the group of that failure."""
        if not attempts:
            return
        before = self.lock(tx, [each.case_id for each in attempts])
        changes: Changes = Counter()
        for each in attempts:
            case = before[each.case_id]
            changes[each.group_id, case.state] += 1
            changes[case.group_id, case.state] -= 1
        tx.insert_many("desk_attempt", _ATTEMPT, (each.row for each in attempts))
        tx.rows(self._sql["fail_again"], {"rows": json.dumps([each.failure for each in attempts])})
        self._tallies.add(tx, changes)

    # Reading

    def read(self, tx: Transaction, id: str) -> Case:
        """One of them; raises `UnknownCase`."""
        rows = tx.rows(self._sql["read_case"], {"id": id}) if is_case_id(id) else []
        if not rows:
            raise UnknownCase(id)
        return Case.from_row(rows[0])

    def find(self, tx: Transaction, text: str) -> Case:
        """The case of a number, an id, or the beginning of one that no other has; raises `UnknownCase`."""
        text = text.strip().lower()
        if text.isdecimal() and text.isascii() and len(text) < 19:
            rows = tx.rows(self._sql["case_of_seq"], {"seq": int(text)})
            if rows:
                return Case.from_row(rows[0])
        rows = tx.rows(self._sql["cases_between"], _between(text)) if _PREFIX.fullmatch(text) else []
        if len(rows) != 1:
            raise UnknownCase(text, is_ambiguous=bool(rows))
        return Case.from_row(rows[0])

    def some(self, tx: Transaction, ids: Collection[str]) -> dict[str, Case]:
        """The cases of these ids, as far as they exist."""
        return self._some(tx, "read_cases", ids)

    def lock(self, tx: Transaction, ids: Collection[str]) -> dict[str, Case]:
        """The cases of these ids, as far as they exist, locked until the transaction ends."""
        return self._some(tx, "lock_cases", ids)

    def of_input(self, tx: Transaction, topic_id: str, partition: int, offset: int) -> list[Case]:
        """What the record at that place has become, the oldest case first."""
        place = {"topic_id": topic_id, "partition": partition, "offset": offset}
        return [Case.from_row(row) for row in tx.rows(self._sql["cases_of_input"], place)]

    def waiting_in(self, tx: Transaction, flow: str, lane: int, limit: int, after: Due) -> list[Case]:
        """What waits in a lane, by when it is due; `after` is that time and the number of the last one shown before."""
        given = {"flow": flow, "lane": lane, "due_at": after[0], "seq": after[1], "limit": limit}
        return [Case.from_row(row) for row in tx.rows(self._sql["waiting_in_lane"], given)]

    def parked_behind(self, tx: Transaction, id: str, limit: int) -> list[Case]:
        """What waits for this case to be settled."""
        return [Case.from_row(row) for row in tx.rows(self._sql["parked_behind"], {"id": id, "limit": limit})]

    def bodies(self, tx: Transaction, ids: Collection[str]) -> dict[str, Body]:
        """What goes out of these cases: of each the edit that it is set to, or the record's own."""
        return self._bodies(tx, "bodies", ids)

    def originals(self, tx: Transaction, ids: Collection[str]) -> dict[str, Body]:
        """What the records were, whatever was edited since."""
        return self._bodies(tx, "originals", ids)

    # Moves

    def move(
        self,
        tx: Transaction,
        ids: Collection[str],
        to: CaseState,
        *,
        frm: Collection[CaseState] | None = None,
        who: str,
        why: str,
        ticket: bool = False,
        lane: int | None = None,
        due_at: int | None = None,
        rule: str | None = None,
        what: str | None = None,
        gives_back: bool = False,
    ) -> list[str]:
        """Move those of them that are in a state from which that is allowed, and in `frm` if given; returns these.

        `ticket` makes all that was sent of them before worthless. What is settled lets its body go. The history says
        `what` was done: the name of the state if nothing is given. `gives_back` counts that a try was called off
        before it began, which burns no attempt.
        """
        sources = sorted({state for state in map(CaseState, MOVES if frm is None else frm) if to in MOVES[state]})
        values = {
            **{"to": to, "ticket": int(ticket), "lane": lane, "due_at": due_at, "rule": rule},
            **{"settles": int(to.is_settled), "gives_back": int(gives_back)},
            **_settled(to, who, why),
        }
        moved: dict[CaseState, list[Row]] = {}
        for state, some in self._by_state(tx, ids, sources).items():
            if found := tx.rows(self._sql["move_cases"], {"ids": _json(some), **_states([state]), **values}):
                moved[state] = found
                said = HistoryEntry(what or to.value, who, why, data={"from": state})
                self._history.add_same(tx, said, [row[0] for row in found])
        return self._after_move(tx, moved, to)

    def _by_state(
        self, tx: Transaction, ids: Collection[str], sources: Sequence[CaseState]
    ) -> Mapping[CaseState, Collection[str]]:
        """The state in which each is, of those in one of several; nobody else moves them any more."""
        if len(sources) == 1 and ids:
            return {sources[0]: ids}
        found: dict[CaseState, list[str]] = defaultdict(list)
        if ids and sources:
            for id, state in tx.rows(self._sql["lock_for_move"], {"ids": _json(ids), **_states(sources)}):
                found[CaseState(state)].append(id)
        return found

    def _after_move(self, tx: Transaction, moved: Mapping[CaseState, Sequence[Row]], to: CaseState) -> list[str]:
        ids = [row[0] for found in moved.values() for row in found]
        if to.is_settled:
            self.let_go(tx, ids)
        if to in _DONE:
            held = (row[2:5] for state, found in moved.items() if state not in _DONE for row in found)
            self._keys.settle(tx, (key for key in held if key[2] is not None))
        changes: Changes = Counter()
        for state, found in moved.items():
            for group, count in Counter(row[1] for row in found).items():
                changes[group, to] += count
                changes[group, state] -= count
        self._tallies.add(tx, changes)
        return ids

    def raise_tickets(self, tx: Transaction, ids: Collection[str]) -> list[str]:
        """What was sent of these does not count any more; they stay where they are."""
        return self._live(tx, "raise_tickets", ids)

    def assign(self, tx: Transaction, ids: Collection[str], assignee: str | None) -> list[str]:
        """Assign cases to a person, or to nobody; returns those that are not settled."""
        return self._live(tx, "assign_cases", ids, assignee=assignee)

    def set_edit(self, tx: Transaction, id: str, edit: int, *, frm_edit: int) -> bool:
        """Another edit goes out next; false when the case had another one already, or is settled."""
        return bool(tx.rows(self._sql["set_edit"], {"id": id, "edit": edit, "from_edit": frm_edit, **_states(LIVE)}))

    def regroup(self, tx: Transaction, ids: Collection[str], group: int) -> list[str]:
        """Put cases into another group; returns those that were not in it before."""
        before = {id: case for id, case in self.lock(tx, ids).items() if case.group_id != group}
        if before:
            tx.rows(self._sql["regroup_cases"], {"ids": _json(before), "group": group})
            changes: Changes = Counter((group, case.state) for case in before.values())
            changes.subtract((case.group_id, case.state) for case in before.values())
            self._tallies.add(tx, changes)
        return list(before)

    def let_go(self, tx: Transaction, ids: Collection[str]) -> None:
        """Their bodies are not needed any more. Files of large ones are swept up later."""
        if ids:
            tx.run(self._sql["let_go"], {"ids": _json(ids)})

    def _live(self, tx: Transaction, query: str, ids: Collection[str], **params: Any) -> list[str]:
        """Change those of them that are not settled; returns these."""
        if not ids:
            return []
        return [str(id) for (id,) in tx.rows(self._sql[query], {"ids": _json(ids), **_states(LIVE), **params})]

    def _some(self, tx: Transaction, query: str, ids: Collection[str]) -> dict[str, Case]:
        if not ids:
            return {}
        return {case.id: case for case in map(Case.from_row, tx.rows(self._sql[query], {"ids": _json(ids)}))}

    def _bodies(self, tx: Transaction, query: str, ids: Collection[str]) -> dict[str, Body]:
        if not ids:
            return {}
        return {str(row[0]): Body.from_row(row[1:]) for row in tx.rows(self._sql[query], {"ids": _json(ids)})}


def is_case_id(text: str) -> bool:
    """Whether it could be the id of a case: what else comes as a correlation id is nobody's."""
    return len(text) == len(_UUID) and _PREFIX.fullmatch(text) is not None and _is_dashed(text)


def _is_dashed(text: str) -> bool:
    return all((character == "-") == (zero == "-") for character, zero in zip(text, _UUID, strict=True))


def _between(prefix: str) -> dict[str, str]:
    """The least and the greatest id with that beginning, however it is dashed."""
    digits = prefix.replace("-", "")[:32]
    return {"low": _dashed(digits.ljust(32, "0")), "high": _dashed(digits.ljust(32, "f"))}


def _dashed(digits: str) -> str:
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _settled(to: CaseState, who: str, why: str) -> dict[str, str | None]:
    is_kept = to.is_settled or to is CaseState.IGNORED
    return {"settled_by": storable(who) if is_kept else None, "settled_why": storable(why) if is_kept else None}


def _case_row(case: NewCase, now: int) -> tuple[Any, ...]:
    return (*case[:6], case.state.value, *case[7:24], *case[30:], case.failed_at, now, now)


def _first_attempt(case: NewCase) -> tuple[Any, ...]:
    return (case.id, 1, *case[7:11], *case[18:23], *case[27:30])


def _body_row(case: NewCase) -> tuple[Any, ...]:
    return (case.id, *case[24:27])


def _states(states: Collection[CaseState]) -> dict[str, str]:
    return {"states": json.dumps(sorted(states))}


def _json(ids: Iterable[str]) -> str:
    return json.dumps(list(ids))


class AttemptStore:
    """Reads attempts inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.desk.cases", "attempts", database.dialect)

    def of_case(self, tx: Transaction, case_id: str) -> list[PastAttempt]:
        """The first one first."""
        return [PastAttempt.from_row(row) for row in tx.rows(self._sql["attempts_of"], {"case": case_id})]

    def batches_of(self, tx: Transaction, case_ids: Collection[str]) -> set[tuple[str, str]]:
        """Case and hash of each failure of these."""
        if not case_ids:
            return set()
        return {(str(id), hash) for id, hash in tx.rows(self._sql["batches_of"], _ids(case_ids))}

    def there(self, tx: Transaction, case_ids: Collection[str]) -> set[str]:
        """Which of these ids belong to a case."""
        return {str(id) for (id,) in tx.rows(self._sql["there"], _ids(case_ids))} if case_ids else set()

    def keep_traces(self, tx: Transaction, traces: Mapping[str, str]) -> None:
        """By id."""
        if traces:
            tx.run(self._sql["keep_traces"], {"rows": json.dumps(sorted(traces.items()))})

    def set_headers(self, tx: Transaction, headers: Mapping[str, str]) -> None:
        """What cases go back with, by id: outputs may have more of a record by now."""
        if headers:
            tx.run(self._sql["set_headers"], {"rows": json.dumps(sorted(headers.items()))})


def _ids(case_ids: Collection[str]) -> dict[str, str]:
    return {"ids": json.dumps(list(case_ids))}


class HistoryStore:
    """Writes and reads history inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = Queries("towpath.desk.cases", "history", database.dialect)

    def add(self, tx: Transaction, entries: Iterable[HistoryEntry]) -> None:
        """Write them down, in the transaction that does what they tell of."""
        now = self._database.now()
        plain = _Plain()
        rows = [
            (each.case_id, each.group_id, each.what, plain.text(each.who), plain.text(each.why), plain.json(each), now)
            for each in entries
        ]
        if rows:
            tx.insert_many("desk_history", _COLUMNS, rows)

    def add_same(self, tx: Transaction, entry: HistoryEntry, case_ids: Collection[str]) -> None:
        """Add the same entry for each of many cases."""
        plain = _Plain()
        told = {"what": entry.what, "who": plain.text(entry.who), "why": plain.text(entry.why)}
        given = {"ids": json.dumps(list(case_ids)), "data": plain.json(entry), **told}
        tx.run(self._sql["add_same"], given)

    def of_case(self, tx: Transaction, case_id: str) -> list[HistoryRow]:
        """Oldest first."""
        return [_done(row) for row in tx.rows(self._sql["history_of_case"], {"case": case_id})]

    def of_group(self, tx: Transaction, group_id: int, limit: int = 200) -> list[HistoryRow]:
        """The newest of them, oldest first."""
        rows = tx.rows(self._sql["history_of_group"], {"group": group_id, "limit": limit})
        return [_done(row) for row in reversed(rows)]


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One thing that was done: to a case or to a group."""

    what: str
    who: str
    why: str
    case_id: str | None = None
    group_id: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """An entry as the table has it."""

    seq: int
    what: str
    who: str
    why: str
    data: dict[str, Any]
    at: datetime


class _Plain:
    """What is the same for thousands of cases is made storable once."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._data: dict[tuple[tuple[str, Any], ...], str] = {}

    def text(self, text: str) -> str:
        if text not in self._texts:
            self._texts[text] = storable(text)
        return self._texts[text]

    def json(self, entry: HistoryEntry) -> str:
        try:
            key = tuple(entry.data.items())
            if key not in self._data:
                self._data[key] = json.dumps(dict(entry.data), default=str)
            return self._data[key]
        except TypeError:  # a list in it
            return json.dumps(dict(entry.data), default=str)


def _done(row: tuple[Any, ...]) -> HistoryRow:
    seq, what, who, why, data, at = row
    return HistoryRow(seq, what, who, why, json.loads(data), to_datetime(at))
