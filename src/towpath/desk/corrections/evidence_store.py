"""The tables `desk_evidence`, `desk_learning`, `desk_learned` and `desk_verdict`: what was counted, and up to where."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row
from towpath.desk.corrections.count import Count, Counts
from towpath.errors import CountedAlready
from towpath.flow.positions import Range

_BY_RULE = "rule:%"


class EditToLearn(NamedTuple):
    """An edit with which a case was resolved, and where the record lies as it was before."""

    case_id: str
    edit: int
    value: bytes
    message: str
    topic: str
    partition: int
    offset: int


class EvidenceStore:
    """Adds counts inside a transaction that the caller opens, in which what was counted is marked as such."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.desk.corrections", "evidence", database.dialect)

    def add(self, tx: Transaction, flow: str, *, taken: Counts | None = None, edited: Counts | None = None) -> None:
        """On top of what is there. In one order, so that two never wait for each other in a circle."""
        first, second = taken or Counts(), edited or Counts()
        rows = [(*count, first[count], second[count]) for count in sorted({*first, *second})]
        if rows:
            tx.run(self._sql["add_evidence"], {"flow": flow, "rows": json.dumps(rows)})

    def read(self, tx: Transaction, flow: str) -> Counts:
        """All of a flow."""
        rows = tx.rows(self._sql["read_evidence"], {"flow": flow})
        return Counts({Count(*row[:-1]): row[-1] for row in rows})

    def size(self, tx: Transaction, flow: str) -> int:
        return int(tx.rows(self._sql["count_evidence"], {"flow": flow})[0][0])

    def strongest(
        self, tx: Transaction, flow: str, field: str, aspect: str, deciders: str, limit: int
    ) -> list[tuple[str, str, int, int]]:
        """Given, value, and how many records and edits say so."""
        which = {"flow": flow, "field": field, "aspect": aspect, "deciders": deciders, "limit": limit}
        return [(str(a), str(b), int(c), int(d)) for a, b, c, d in tx.rows(self._sql["evidence_of_rule"], which)]

    # Positions

    def positions(self, tx: Transaction, flow: str) -> dict[tuple[str, int], int]:
        """By topic id and partition."""
        rows = tx.rows(self._sql["read_positions"], {"flow": flow})
        return {(str(id), int(partition)): int(position) for id, partition, position in rows}

    def move(self, tx: Transaction, flow: str, ranges: Iterable[Range]) -> None:
        """These were counted; `CountedAlready` when somebody else has counted one of them."""
        for each in sorted(ranges):
            place = {"flow": flow, "topic_id": each.topic_id, "partition": each.partition}
            tx.rows(self._sql["begin_partition"], {**place, "topic": each.topic, "position": each.start})
            if not tx.rows(self._sql["move_position"], {**place, "from": each.start, "to": each.stop}):
                raise CountedAlready(str(each))

    # Edits

    def edits(self, tx: Transaction, flow: str, limit: int) -> list[EditToLearn]:
        """Those that were not counted, oldest first."""
        rows = tx.rows(self._sql["edits_to_learn"], {"flow": flow, "limit": limit, "by_rule": _BY_RULE})
        return [EditToLearn(str(row[0]), row[1], bytes(row[2]), *row[3:]) for row in rows]

    def mark(self, tx: Transaction, edit: EditToLearn) -> bool:
        """It is counted now; false when it was before."""
        return bool(tx.rows(self._sql["mark_learned"], {"case": edit.case_id, "edit": edit.edit}))

    # Their time is over

    def forget_marks(self, tx: Transaction, limit: int) -> int:
        """Let go of some marks whose cases are gone; returns how many."""
        return tx.run(self._sql["forget_learned"], {"limit": limit})

    def old(self, tx: Transaction, before_us: int, limit: int) -> list[Row]:
        """Some counts that nothing has raised since then."""
        return tx.rows(self._sql["old_evidence"], {"before": before_us, "limit": limit})

    def forget(self, tx: Transaction, rows: Sequence[Row], before_us: int) -> int:
        """Delete those of them of which that is still so; returns how many."""
        return tx.run(
            self._sql["forget_evidence"], {"rows": json.dumps([list(row) for row in rows]), "before": before_us}
        )

    def forget_verdicts(self, tx: Transaction, before_us: int, limit: int) -> int:
        """Delete some verdicts of operators from before then; returns how many."""
        return tx.run(self._sql["forget_verdicts"], {"before": before_us, "limit": limit})

    def verdict(
        self, tx: Transaction, flow: str, edit: EditToLearn, field: str, rule: int | None, agrees: bool | None
    ) -> None:
        """What an operator has put where a rule has, or has not, made a suggestion."""
        values: dict[str, Any] = {"case": edit.case_id, "edit": edit.edit, "flow": flow, "field": field, "rule": rule}
        tx.run(self._sql["add_verdict"], {**values, "agrees": None if agrees is None else int(agrees)})
