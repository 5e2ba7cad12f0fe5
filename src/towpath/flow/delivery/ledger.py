"""The ledger: what each batch of a stage read and what became of it, in the tables `flow_batch` and `flow_gap`.

A move is one guarded statement that also asks whether the process still runs the stage: one that was declared dead and
replaced can commit nothing. Two batches of a stage are never open at once; the database refuses it. The chart in
docs/reference/flow-states.md is held equal to `MOVES`.

`BatchSnapshot` is what a batch fixes beside its positions: how its work is cut up and where its marks begin.

`HeldKeys` is the table `flow_held_key`: keys of which a record lies on the desk, for flows that keep the records of a
key in order. The stage counts what it sends to the error topic, in the transaction that commits the batch; the desk
counts what is done with, in the transaction that settles the case. A key is free when both are equal, and only the
stage frees it, between two batches: so nothing that it has sent can be on its way to the desk unseen.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, NoReturn, Self

from towpath.blocks.rule import OPEN, BlockBarrier
from towpath.core.clock import to_datetime
from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row, storable, to_stored
from towpath.errors import FlowHalted, IllegalFlowMove, NotTheOnlyOne
from towpath.flow.delivery.positions import OffsetRange, Positions, Spot

DIGITS = 32  # of the hash of a key

# How many records went where: `{"read": 9, "filtered": {"label": 1}, "failed": {"9": 2}, …}`.
Counts = Mapping[str, int | Mapping[str, int]]
Digests = Mapping[str, Mapping[str, str]]  # by output and unit, in hexadecimal
Timings = Mapping[str, float]  # seconds, by what took them


class BatchState(StrEnum):
    """How far a batch has come."""

    SNAPSHOT = "snapshot"  # its positions are fixed
    DECIDED = "decided"  # what becomes of each record is fixed; outputs may have some of it
    AHEAD = "ahead"  # at most once: outputs may have some of it, and it will not be tried again
    COMMITTED = "committed"  # every output has what it is to have
    SUPERSEDED = "superseded"  # a reset came before it was committed; it never will be


_SNAPSHOT, _DECIDED, _AHEAD, _COMMITTED, _SUPERSEDED = BatchState

# Where each state leads. Outputs that are one atomic act with their errors need no decision.
MOVES: dict[BatchState, frozenset[BatchState]] = {
    _SNAPSHOT: frozenset({_DECIDED, _AHEAD, _COMMITTED, _SUPERSEDED}),
    _DECIDED: frozenset({_COMMITTED, _SUPERSEDED}),
    _AHEAD: frozenset({_COMMITTED, _SUPERSEDED}),
    _COMMITTED: frozenset(),
    _SUPERSEDED: frozenset(),
}


@dataclass(frozen=True, slots=True)
class Batch:
    """One row of the ledger."""

    flow: str
    stage: str
    generation: int
    batch_id: int
    hash: str
    positions: Positions
    units: Any
    state: BatchState
    attempts: int
    counts: Counts
    digests: Digests
    timings: Timings
    started_at: datetime
    decided_at: datetime | None
    committed_at: datetime | None

    @property
    def key(self) -> tuple[str, str, int, int]:
        return self.flow, self.stage, self.generation, self.batch_id


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets that a stage will never read, and why. `batch_id` is the batch before which it was noticed."""

    flow: str
    stage: str
    generation: int
    topic: str
    topic_id: str
    partition: int
    start: int
    stop: int
    reason: str
    batch_id: int | None
    noticed_at: datetime


class Ledger:
    """Reads and moves batches inside a transaction that the caller opens.

    `owner` is the process that runs the stages whose batches are moved; for reading alone none is needed.
    """

    def __init__(self, database: Database, owner: str = "") -> None:
        self._sql = Queries("towpath.flow.delivery", "ledger", database.dialect)
        self._owner = owner

    # Moves

    def snapshot(
        self,
        tx: Transaction,
        flow: str,
        stage: str,
        generation: int,
        batch_id: int,
        hash: str,
        positions: Positions,
        units: Any = None,
    ) -> Batch:
        """Fix what a batch reads. When that was done before, this is another attempt; its `state` says how far it is.

        `FlowHalted` when the batch was fixed with another hash: topology or checkpoint have changed under us.
        """
        which = {"flow": flow, "stage": stage, "generation": generation, "batch_id": batch_id, "owner": self._owner}
        values = {"hash": hash, "positions": positions.to_json(), "units": to_stored(units)}
        found = tx.rows(self._sql["snapshot"], {**which, **values})
        if not found:
            self._refuse_snapshot(tx, flow, stage, generation, batch_id)
        return _batch(found[0])

    def decide(
        self,
        tx: Transaction,
        flow: str,
        stage: str,
        generation: int,
        batch_id: int,
        *,
        counts: Counts,
        timings: Timings | None = None,
    ) -> Batch:
        """What becomes of each record is fixed."""
        which = {"flow": flow, "stage": stage, "generation": generation, "batch_id": batch_id}
        values = {"counts": to_stored(counts), "timings": to_stored(timings or {})}
        return self._move(tx, "decide", BatchState.DECIDED, which, values)

    def go_ahead(self, tx: Transaction, flow: str, stage: str, generation: int, batch_id: int) -> Batch:
        """At most once: nothing of the batch will be tried a second time."""
        which = {"flow": flow, "stage": stage, "generation": generation, "batch_id": batch_id}
        return self._move(tx, "go_ahead", BatchState.AHEAD, which, {})

    def commit(
        self,
        tx: Transaction,
        flow: str,
        stage: str,
        generation: int,
        batch_id: int,
        *,
        counts: Counts,
        digests: Digests,
        timings: Timings | None = None,
        units: Any = None,
    ) -> Batch:
        """Every output has what it is to have. The totals of the stage grow by it in the same transaction.

        `units` takes the place of what was fixed with the snapshot, where the batch has found out more.
        """
        which = {"flow": flow, "stage": stage, "generation": generation, "batch_id": batch_id}
        values = {"counts": to_stored(counts), "digests": to_stored(digests), "timings": to_stored(timings or {})}
        more = {"units": None if units is None else to_stored(units)}
        committed = self._move(tx, "commit", BatchState.COMMITTED, which, {**values, **more})
        # The move has locked the row of the stage, so no other process adds at the same time.
        total = added(self.totals(tx, flow)[stage], counts)
        tx.run(self._sql["save_totals"], {"flow": flow, "stage": stage, "totals": to_stored(total)})
        return committed

    def supersede_open(self, tx: Transaction, flow: str, stage: str) -> Batch | None:
        """Before a reset: close the batch that is not committed, if there is one."""
        found = tx.rows(self._sql["supersede_open"], {"flow": flow, "stage": stage, "owner": self._owner})
        if not found:
            self._check_owner(tx, flow, stage)
        return _first(found)

    def _move(
        self, tx: Transaction, query: str, target: BatchState, which: dict[str, Any], values: dict[str, Any]
    ) -> Batch:
        found = tx.rows(self._sql[query], {**which, **values, "owner": self._owner})
        if not found:
            self._check_owner(tx, which["flow"], which["stage"])
            now = self.read(tx, **which)
            raise IllegalFlowMove(
                _name(**which), now.state if now else "unknown", target, MOVES[now.state] if now else ()
            )
        return _batch(found[0])

    def _refuse_snapshot(self, tx: Transaction, flow: str, stage: str, generation: int, batch_id: int) -> NoReturn:
        name = _name(flow, stage, generation, batch_id)
        current = self._check_owner(tx, flow, stage)
        if current != generation:
            raise FlowHalted(f"{name} cannot run: the stage is in generation {current}. Start it again.")
        found = self.read(tx, flow, stage, generation, batch_id)
        if found is None:
            other = self.open_batch(tx, flow, stage)
            raise FlowHalted(
                f"{name} cannot run: batch {other.batch_id if other else '?'} is not committed. The checkpoint is "
                f"ahead of the ledger; put the one back that belongs to it, or reset: towpath flow reset {flow}"
            )
        if found.state is BatchState.SUPERSEDED:
            raise FlowHalted(f"{name} was given up by a reset and cannot run again. Start the stage again.")
        raise FlowHalted(
            f"{name} was to read {found.positions.to_json()} and now reads something else: the checkpoint or the "
            f"flow's inputs have changed under it. Put the old checkpoint back, or reset: towpath flow reset {flow}"
        )

    def _check_owner(self, tx: Transaction, flow: str, stage: str) -> int:
        """The generation of the stage that this process runs."""
        found = tx.rows(self._sql["owner_of_stage"], {"flow": flow, "stage": stage})
        other, generation = found[0] if found else (None, 0)
        if other is None or other != self._owner:
            raise NotTheOnlyOne(
                f"stage {stage} of {flow} is run by {other or 'nobody'} now, not by {self._owner or 'this process'}"
            )
        return int(generation)

    # Reading

    def read(self, tx: Transaction, flow: str, stage: str, generation: int, batch_id: int) -> Batch | None:
        which = {"flow": flow, "stage": stage, "generation": generation, "batch_id": batch_id}
        return _first(tx.rows(self._sql["read_batch"], which))

    def open_batch(self, tx: Transaction, flow: str, stage: str) -> Batch | None:
        """The batch that is not committed yet."""
        return _first(tx.rows(self._sql["open_batch"], {"flow": flow, "stage": stage}))

    def last_committed(self, tx: Transaction, flow: str, stage: str, generation: int) -> Batch | None:
        which = {"flow": flow, "stage": stage, "generation": generation}
        return _first(tx.rows(self._sql["last_committed"], which))

    def batches(
        self, tx: Transaction, flow: str, stage: str, limit: int, before: tuple[int, int] | None = None
    ) -> list[Batch]:
        """The newest first; `before` is generation and batch id of the last one of the page before."""
        generation, batch_id = before or (None, None)
        which = {"flow": flow, "stage": stage, "limit": limit, "generation": generation, "batch_id": batch_id}
        return [_batch(row) for row in tx.rows(self._sql["list_batches"], which)]

    def readers(self, tx: Transaction, flow: str, stage: str, spot: Spot, offset: int) -> list[Batch]:
        """The batches in whose ranges an offset is, the newest first: one in each generation that has come to it."""
        found = []
        for generation, first, last in tx.rows(self._sql["generations"], {"flow": flow, "stage": stage}):
            which = {"flow": flow, "stage": stage, "generation": generation}
            batch = self._reader(tx, which, spot, offset, first, last)
            found += [] if batch is None else [batch]
        return found

    def _reader(
        self, tx: Transaction, which: dict[str, Any], spot: Spot, offset: int, first: int, last: int
    ) -> Batch | None:
        """By halves: batches of a generation follow each other, and each has a range for every partition it knows."""
        while first <= last:
            middle = (first + last) // 2
            batch = _first(tx.rows(self._sql["batch_from"], {**which, "batch_id": middle}))
            if batch is None or batch.batch_id > last:
                last = middle - 1
                continue
            part = next((each for each in batch.positions if each.spot == spot), None)
            if part is None or part.stop <= offset:  # none: the partition is younger than this batch
                first = batch.batch_id + 1
            elif part.start > offset:
                last = middle - 1
            else:
                return batch
        return None

    def totals(self, tx: Transaction, flow: str) -> dict[str, dict[str, Any]]:
        """What all committed batches have counted, by stage; also those whose rows are gone."""
        rows = tx.rows(self._sql["read_totals"], {"flow": flow})
        return {stage: json.loads(totals) for stage, totals in rows}

    # Gaps

    def add_gap(
        self,
        tx: Transaction,
        flow: str,
        stage: str,
        generation: int,
        gap: OffsetRange,
        reason: str,
        batch_id: int | None = None,
    ) -> bool:
        """Write down what will never be read; returns whether it was not known before."""
        which = {"flow": flow, "stage": stage, "generation": generation, "batch_id": batch_id}
        return tx.run(self._sql["add_gap"], {**which, **gap._asdict(), "reason": storable(reason)}) > 0

    def gaps(self, tx: Transaction, flow: str, stage: str | None = None) -> list[Gap]:
        """The oldest first."""
        rows = tx.rows(self._sql["list_gaps"], {"flow": flow, "stage": stage})
        return [replace(Gap(*row), noticed_at=to_datetime(row[10])) for row in rows]


def _name(flow: str, stage: str, generation: int, batch_id: int) -> str:
    return f"batch {batch_id} of {flow}/{stage}, generation {generation},"


def _first(rows: list[Row]) -> Batch | None:
    return _batch(rows[0]) if rows else None


def _batch(row: Row) -> Batch:
    flow, stage, generation, batch_id, hash, positions, units, state, attempts, counts, digests, timings = row[:12]
    started_at, decided_at, committed_at = row[12:]
    return Batch(
        flow,
        stage,
        generation,
        batch_id,
        hash,
        Positions.from_json(positions),
        json.loads(units),
        BatchState(state),
        attempts,
        json.loads(counts),
        json.loads(digests),
        json.loads(timings),
        to_datetime(started_at),
        None if decided_at is None else to_datetime(decided_at),
        None if committed_at is None else to_datetime(committed_at),
    )


def added(one: Counts, other: Counts) -> dict[str, int | dict[str, int]]:
    """The sum of two counts, name by name, also of names that only one of them has."""
    total: dict[str, int | dict[str, int]] = {}
    for name in sorted({*one, *other}):
        parts = [counts[name] for counts in (one, other) if name in counts]
        numbers = [part for part in parts if isinstance(part, int)]
        total[name] = sum(numbers) if len(numbers) == len(parts) else _added_parts(parts)
    return total


def _added_parts(parts: list[int | Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, count in part.items() if isinstance(part, Mapping) else [("", part)]:
            total[name] = total.get(name, 0) + count
    return dict(sorted(total.items()))


@dataclass(frozen=True, slots=True)
class BatchSnapshot:
    """What a batch has fixed: the same on every attempt, whatever the settings are by then."""

    buckets: int = 1  # into which a stage that shuffles puts its inputs
    marks_since: Mapping[int, int] = field(default_factory=dict)  # by partition of the marks topic
    marks_id: str = ""  # of that topic; an older row has none
    watermarks: Mapping[str, int] = field(default_factory=dict)  # in ms, by source that joins on columns
    # The latest of all batches before, in ms, by input of such a source; when it is committed, with its own.
    event_times: Mapping[str, int] = field(default_factory=dict)
    blocks: BlockBarrier = OPEN  # the rules that counted when the batch was fixed

    def to_value(self) -> dict[str, Any]:
        marks = {str(number): at for number, at in self.marks_since.items()}
        times = {"watermarks": dict(self.watermarks), "event_times": dict(self.event_times)} if self.event_times else {}
        blocks = {"blocks": self.blocks.to_value()} if self.blocks else {}
        return {"buckets": self.buckets, "marks": marks, "marks_id": self.marks_id, **times, **blocks}

    @classmethod
    def of_value(cls, value: Any) -> Self:
        """An older row may have none."""
        if not value:
            return cls()
        marks = {int(number): at for number, at in value["marks"].items()}
        times = (value.get("watermarks", {}), value.get("event_times", {}))
        blocks = BlockBarrier.of_value(value.get("blocks", ()))
        return cls(value["buckets"], marks, value.get("marks_id", ""), *times, blocks)


class HeldKeys:
    """Counts inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.flow.delivery", "held_keys", database.dialect)

    def send(self, tx: Transaction, flow: str, stage: str, keys: Iterable[bytes]) -> None:
        """Records of these keys go to the error topic, one for each time that a key is named."""
        for key_hash, count in sorted(Counter(map(hash_of, keys)).items()):
            params = {"flow": flow, "stage": stage, "key_hash": key_hash, "count": count}
            tx.run(self._sql["send"], params)

    def settle(self, tx: Transaction, cases: Iterable[tuple[str, str, str]]) -> None:
        """Records are done with: of each its flow, stage and hash of its key."""
        for (flow, stage, key_hash), count in sorted(Counter(cases).items()):
            params = {"flow": flow, "stage": stage, "key_hash": key_hash, "count": count}
            tx.run(self._sql["settle"], params)

    def free(self, tx: Transaction, flow: str, stage: str) -> frozenset[str]:
        """Let go of keys of which nothing is left on the desk, and return the others."""
        which = {"flow": flow, "stage": stage}
        tx.run(self._sql["free"], which)
        return frozenset(row[0] for row in tx.rows(self._sql["held"], which))


def hash_of(key: bytes) -> str:
    """What stands for a key; `ordering.HASH` is the same in Spark."""
    return hashlib.sha256(key).hexdigest()[:DIGITS]
