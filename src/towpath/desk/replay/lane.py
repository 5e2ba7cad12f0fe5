"""A lane: one partition of a flow's lane topic, in which records wait for the same time before they are tried again.

A record in a lane carries the time at which it is due and its ticket. `choose` says which records are released now;
it is pure. *Strict*: in the order in which they lie, up to the first that is not due. *All due*: every one that is
due; the safe position is that of the first one passed over, and what was released beyond it is remembered. The table
`desk_lane` says how long each partition waits, which process has it, and how far it has come.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple, Protocol, Self

from towpath.core.clock import to_datetime
from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row
from towpath.errors import DatabaseUnavailable, LaneLost, UnknownLane
from towpath.flow.records.errors import PREFIX
from towpath.flow.records.reentry import ATTEMPT, CORRELATION, TICKET
from towpath.log.record import NewRecord, Record

SUFFIX = ".lanes"

DUE = f"{PREFIX}due"  # microseconds since 1970, by the database's clock

Order = Literal["strict", "all-due"]

MOST_LANES = 100  # of a flow: what waits for yet another time waits in the nearest of them
TRIES = 20


def lane_topic(flow: str) -> str:
    """The topic in which a flow's lanes are."""
    return f"{flow}{SUFFIX}"


@dataclass(frozen=True, slots=True)
class ReleasedAbove:
    """Which records at or above the safe position were released: before and after the last release of a lane."""

    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()

    @classmethod
    def from_json(cls, text: str) -> Self:
        stored = json.loads(text)
        return cls(tuple(stored["before"]), tuple(stored["after"]))

    def to_json(self) -> str:
        return json.dumps({"before": self.before, "after": self.after})


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane as its row has it."""

    flow: str
    partition: int
    delay_ms: int
    jitter_ms: int
    is_paused: bool
    hurried_to: int  # microseconds: what is due before this time counts as due now
    owner: str | None
    wanted_by: str | None
    position: int  # the safe position after its last release
    release: int  # its number
    beyond: ReleasedAbove = field(default_factory=ReleasedAbove)
    made_at: datetime | None = None

    @property
    def name(self) -> str:
        return f"{self.flow}/{self.partition}"

    @property
    def topic(self) -> str:
        return lane_topic(self.flow)

    @classmethod
    def from_row(cls, row: Row) -> Self:
        flow, partition, delay_ms, jitter_ms, is_paused, hurried_to, owner, wanted_by, position, release = row[:10]
        return cls(
            flow,
            partition,
            delay_ms,
            jitter_ms,
            bool(is_paused),
            hurried_to,
            owner,
            wanted_by,
            position,
            release,
            ReleasedAbove.from_json(row[10]),
            to_datetime(row[11]),
        )


def nearest(lanes: Sequence[Lane], delay_ms: int) -> Lane:
    """The lane in which a wait of that length fits best: the shortest of those that are not shorter, or the longest."""
    longer = [lane for lane in lanes if lane.delay_ms >= delay_ms]
    return min(longer, key=lambda lane: lane.delay_ms) if longer else max(lanes, key=lambda lane: lane.delay_ms)


class LaneStore:
    """Reads and changes lanes inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.desk.replay", "lanes", database.dialect)

    def ensure(self, tx: Transaction, flow: str, delay_ms: int, jitter_ms: int | None = None) -> Lane:
        """The lane of that delay, made when it is new."""
        for _ in range(TRIES):
            found = self._of_delay(tx, flow, delay_ms)
            if found is None and len(lanes := self.of_flow(tx, flow)) >= MOST_LANES:
                found = nearest(lanes, delay_ms)
            if found is not None:
                return self._with_jitter(tx, found, jitter_ms)
            tx.run(self._sql["add_lane"], {"flow": flow, "delay_ms": delay_ms})
        raise DatabaseUnavailable(f"no lane of {delay_ms} ms could be made for {flow}: others make lanes all the time")

    def _of_delay(self, tx: Transaction, flow: str, delay_ms: int) -> Lane | None:
        rows = tx.rows(self._sql["lane_of_delay"], {"flow": flow, "delay_ms": delay_ms})
        return Lane.from_row(rows[0]) if rows else None

    def _with_jitter(self, tx: Transaction, lane: Lane, jitter_ms: int | None) -> Lane:
        if jitter_ms is not None and jitter_ms != lane.jitter_ms:
            which = {"flow": lane.flow, "partition": lane.partition}
            tx.run(self._sql["set_jitter"], {**which, "jitter_ms": jitter_ms})
        return lane

    def read(self, tx: Transaction, flow: str, partition: int) -> Lane:
        """One of them; raises `UnknownLane`."""
        rows = tx.rows(self._sql["read_lane"], {"flow": flow, "partition": partition})
        if not rows:
            raise UnknownLane(flow, partition)
        return Lane.from_row(rows[0])

    def of_flow(self, tx: Transaction, flow: str | None = None) -> list[Lane]:
        """The lanes of one flow, or of all."""
        return [Lane.from_row(row) for row in tx.rows(self._sql["list_lanes"], {"flow": flow})]

    def crowds(self, tx: Transaction, flow: str) -> dict[int, LaneLoad]:
        """What waits in the lanes of a flow."""
        return {row[0]: LaneLoad(*row[1:]) for row in tx.rows(self._sql["waiting_in"], {"flow": flow})}

    def waiting_in(self, tx: Transaction, lane: Lane, limit: int) -> list[str]:
        """Some of the cases that wait in a lane."""
        params = {"flow": lane.flow, "lane": lane.partition, "limit": limit}
        return [str(id) for (id,) in tx.rows(self._sql["ids_waiting_in"], params)]

    # Who has them

    def owners(self, tx: Transaction) -> set[str]:
        return {owner for (owner,) in tx.rows(self._sql["owners"], {})}

    def claim(self, tx: Transaction, lane: Lane, owner: str) -> Lane | None:
        """The lane as it is now, this process's; None when another was faster."""
        rows = tx.rows(self._sql["claim_lane"], {**_which(lane), "owner": owner})
        return Lane.from_row(rows[0]) if rows else None

    def free(self, tx: Transaction, owners: Collection[str]) -> int:
        """Lanes of these are nobody's from now on; returns how many."""
        return sum(tx.run(self._sql["free_lanes_of"], {"owner": owner}) for owner in owners)

    def want(self, tx: Transaction, lane: Lane, me: str) -> bool:
        """Ask the owner of a lane for it; false when another has asked."""
        return bool(tx.rows(self._sql["want_lane"], {**_which(lane), "owner": lane.owner, "wanted_by": me}))

    def hand_over(self, tx: Transaction, lane: Lane, owner: str) -> bool:
        """Give a lane to whoever asked for it; false when nobody did, or it is not this process's."""
        return bool(tx.rows(self._sql["hand_over"], {**_which(lane), "owner": owner}))

    # What it has released

    def plan(self, tx: Transaction, lane: Lane, owner: str, position: int, beyond: ReleasedAbove) -> int:
        """Write down what the next release takes, and return its number; `LaneLost` when it is not this process's."""
        return self._write(tx, "plan_release", lane, owner, lane.release + 1, position, beyond)

    def mend(self, tx: Transaction, lane: Lane, owner: str, release: int, position: int, beyond: ReleasedAbove) -> int:
        """Write down where it is by what the log says; `LaneLost` when it is not this process's."""
        return self._write(tx, "mend_plan", lane, owner, release, position, beyond)

    def _write(
        self, tx: Transaction, query: str, lane: Lane, owner: str, release: int, position: int, beyond: ReleasedAbove
    ) -> int:
        values = {"release": release, "position": position, "beyond": beyond.to_json()}
        if not tx.rows(self._sql[query], {**_which(lane), "owner": owner, **values}):
            raise LaneLost(lane.name, owner)
        return release

    # What people want of it

    def pause(self, tx: Transaction, lane: Lane, *, is_paused: bool) -> bool:
        """Whether that changed anything."""
        return bool(tx.rows(self._sql["pause_lane"], {**_which(lane), "is_paused": int(is_paused)}))

    def hurry(self, tx: Transaction, lane: Lane, to: int) -> Lane:
        """Set the time before which all that is due counts as due now."""
        rows = tx.rows(self._sql["hurry_lane"], {**_which(lane), "hurried_to": to})
        return Lane.from_row(rows[0])


@dataclass(frozen=True, slots=True)
class LaneLoad:
    """How much waits in a lane."""

    cases: int = 0
    first_due: int | None = None
    last_due: int | None = None


def _which(lane: Lane) -> dict[str, object]:
    return {"flow": lane.flow, "partition": lane.partition}


class LaneRecord(NamedTuple):
    """A record of a lane, read back."""

    offset: int
    case_id: str
    attempt: int
    ticket: int
    due_at: int
    spread: float  # from 0 to below 1: its share of the jitter, always the same for the same try
    record: Record

    @classmethod
    def read(cls, record: Record) -> Self:
        """Raises `KeyError` or `ValueError` when it is no record of a lane."""
        said = {name: (value or b"").decode() for name, value in record.headers if name.startswith(PREFIX)}
        case_id, attempt = said[CORRELATION], int(said[ATTEMPT])
        spread = zlib.crc32(f"{case_id}/{attempt}".encode()) / (1 << 32)
        return cls(record.offset, case_id, attempt, int(said[TICKET]), int(said[DUE]), spread, record)

    @property
    def bytes(self) -> int:
        return len(self.record.value or b"") + len(self.record.key or b"") + 1000

    def released(self) -> NewRecord:
        """As it goes on to the re-entry topic, where its key decides the partition."""
        headers = tuple(header for header in self.record.headers if header[0] != DUE)
        return NewRecord(self.record.value, self.record.key, headers)


def lane_record(record: NewRecord, lane: int, due_at: int) -> NewRecord:
    """A record, with its ticket, that is to wait in a lane before it goes back."""
    return record._replace(headers=(*record.headers, (DUE, str(due_at).encode())), partition=lane)


class LaneDue(Protocol):
    """As much of a record as `choose` needs."""

    @property
    def offset(self) -> int: ...
    @property
    def due_at(self) -> int: ...
    @property
    def spread(self) -> float: ...
    @property
    def bytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class LaneTerms:
    """The time, in microseconds, and the settings of the lane by which records are chosen."""

    now: int
    order: Order = "strict"
    jitter_us: int = 0
    hurried_to: int = 0  # what is due before this counts as due now
    most: int = 1_000
    most_bytes: int = 4 << 20

    def release_at(self, record: LaneDue) -> int:
        """When a record goes: when it is due, or somewhat later, never sooner; at once when it was hurried."""
        if record.due_at < self.hurried_to:
            return 0
        return record.due_at + int(record.spread * self.jitter_us)


@dataclass(frozen=True, slots=True)
class LaneChoice:
    """Places in the given records of those that go now; and when the next will go, if nothing else happens."""

    taken: tuple[int, ...]
    next_at: int | None


def choose(records: Sequence[LaneDue], terms: LaneTerms) -> LaneChoice:
    """Which of the records, in the order in which they lie."""
    taken: list[int] = []
    next_at: int | None = None
    room = terms.most_bytes
    for place, record in enumerate(records):
        at = terms.release_at(record)
        is_full = len(taken) >= terms.most or (taken and room < record.bytes)
        if at <= terms.now and not is_full:
            taken.append(place)
            room -= record.bytes
            continue
        next_at = at if next_at is None else min(next_at, at)
        if is_full or terms.order == "strict":
            break
    return LaneChoice(tuple(taken), next_at)


@dataclass(frozen=True, slots=True)
class LaneProgress:
    """How far a lane is done: everything below the position, and these offsets at or above it."""

    position: int = 0
    beyond: tuple[int, ...] = ()

    def after(self, taken: Collection[int], left: Sequence[int], end: int) -> LaneProgress:
        """With these offsets taken; `left` are those that were read and are not, `end` is after the last that was."""
        position = left[0] if left else end
        done = {offset for offset in (*self.beyond, *taken) if offset >= position}
        return LaneProgress(position, tuple(sorted(done)))
