"""The tables `duty` (what has to run, and its present launch) and `death` (who died, how, and what was freed)."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from towpath.core.clock import Clock, to_datetime
from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row, storable
from towpath.errors import IllegalDutyMove, UnknownDuty
from towpath.supervision.duties.model import MOVES, DeathKind, Duty, DutyMove, DutyState, NewDuty

LONGEST_TROUBLE = 2_000
LAUNCHES_KEPT = 5  # of each duty, with their logs
READ_AGAIN_S = 5.0  # also when nothing seems to have changed: a sum may be the same by chance


class DutyStore:
    """Reads and moves duties inside a transaction that the caller opens.

    What changes a launch names its id: one that is not the current one any more is refused.
    """

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.supervision.duties", "duties", database.dialect)

    def all(self, tx: Transaction) -> list[Duty]:
        return [Duty.from_row(row) for row in tx.rows(self._sql["all_duties"], {})]

    def version(self, tx: Transaction) -> tuple[int, ...]:
        """Another one whenever something about a duty has changed."""
        return tuple(int(each) for each in tx.rows(self._sql["duties_version"], {})[0])

    def read(self, tx: Transaction, name: str) -> Duty:
        """One of them; raises `UnknownDuty`."""
        rows = tx.rows(self._sql["read_duty"], {"name": name})
        if not rows:
            raise UnknownDuty(name, (each.name for each in self.all(tx)))
        return Duty.from_row(rows[0])

    # What people and settings wish

    def want(self, tx: Transaction, wanted: NewDuty, who: str, why: str) -> Duty:
        """It is to run in this way; what runs in another way makes way for a new start."""
        by = {"who": storable(who), "why": storable(why)}
        spec = wanted.spec.to_json()
        params = {"name": wanted.name, "kind": wanted.kind, "host": wanted.host, "spec": spec, **by}
        made = tx.rows(self._sql["insert_duty"], params)
        if made:
            return Duty.from_row(made[0])
        [row] = tx.rows(self._sql["lock_duty"], {"name": wanted.name})
        before = Duty.from_row(row)
        is_other = before.is_running and (before.spec, before.host) != (wanted.spec, wanted.host)
        [row] = tx.rows(self._sql["change_duty"], {**params, "is_other": int(is_other)})
        if before.state in (DutyState.STOPPED, DutyState.FAILED):
            return self._move(tx, DutyMove.WANT, "want_duty", name=wanted.name, **by)
        return Duty.from_row(row)

    def restart(self, tx: Transaction, name: str, who: str, why: str) -> Duty:
        """What runs of it makes way for a new start; what does not run is started without further wait."""
        by = {"name": name, "who": storable(who), "why": storable(why)}
        for query in ("replace_launch", "want_duty"):
            if rows := tx.rows(self._sql[query], by):
                return Duty.from_row(rows[0])
        return self.read(tx, name)  # it waits for its start already

    def stop(self, tx: Transaction, name: str, who: str, why: str) -> Duty:
        """It is not to run; what runs of it is told so by the coordinator."""
        rows = tx.rows(self._sql["wish_stop"], {"name": name, "who": storable(who), "why": storable(why)})
        if not rows:
            return self.read(tx, name)  # which says that there is none
        cancelled = tx.rows(self._sql["cancel_duty"], {"name": name})
        return Duty.from_row((cancelled or rows)[0])

    def forget(self, tx: Transaction, name: str) -> bool:
        """Whether it is gone; one of which something may run stays."""
        return bool(tx.run(self._sql["forget_duty"], {"name": name}))

    # What the coordinator does, under its term

    def launch(self, tx: Transaction, name: str, launch_id: str) -> Duty:
        """Take a start, before anything is started."""
        return self._move(tx, DutyMove.LAUNCH, "launch_duty", name=name, launch_id=launch_id)

    def cancel(self, tx: Transaction, name: str) -> Duty:
        """Nothing of it runs, and nothing of it is to run."""
        return self._move(tx, DutyMove.CANCEL, "cancel_duty", name=name)

    def tell_to_stop(self, tx: Transaction, duty: Duty) -> Duty:
        return self._move(tx, DutyMove.STOP, "stop_duty", name=duty.name, launch_id=duty.launch_id)

    def die(self, tx: Transaction, duty: Duty, next_try_us: int, early_deaths: int, trouble: str) -> Duty:
        """The process of its launch is gone for certain."""
        after = {"next_try_us": next_try_us, "early_deaths": early_deaths, "trouble": _short(trouble)}
        return self._move(tx, DutyMove.DIE, "duty_died", name=duty.name, launch_id=duty.launch_id, **after)

    def give_up(self, tx: Transaction, name: str) -> Duty:
        return self._move(tx, DutyMove.GIVE_UP, "give_up_duty", name=name)

    def end(self, tx: Transaction, duty: Duty, trouble: str = "") -> Duty:
        """The process that was told to stop has ended: stopped, or the next start may come."""
        told = {"launch_id": duty.launch_id, "trouble": _short(trouble)}
        if rows := tx.rows(self._sql["duty_made_way"], dict(told)):
            return Duty.from_row(rows[0])
        return self._move(tx, DutyMove.END, "duty_ended", name=duty.name, **told)

    def settle(self, tx: Transaction, launch_id: str) -> Duty | None:
        """The process of a launch is at work; none when it is not starting any more."""
        rows = tx.rows(self._sql["duty_ready"], {"launch_id": launch_id})
        return Duty.from_row(rows[0]) if rows else None

    # Facts about a launch; they count while it is the current one

    def note_handle(self, tx: Transaction, launch_id: str, handle: str) -> list[str]:
        """Returns those of earlier launches of which nothing need be kept any more."""
        rows = tx.rows(self._sql["handles_of_launch"], {"launch_id": launch_id})
        if not rows:
            return []
        handles = [*(each for each in json.loads(rows[0][0]) if each != handle), handle]
        kept = json.dumps(handles[-LAUNCHES_KEPT:])
        tx.run(self._sql["note_handle"], {"launch_id": launch_id, "handle": handle, "handles": kept})
        return handles[:-LAUNCHES_KEPT]

    def note_exit(
        self, tx: Transaction, launch_id: str, exit_code: int | None, signal: int | None, last_line: str = ""
    ) -> bool:
        """Whether that is news."""
        how = {"exit_code": exit_code, "exit_signal": signal, "trouble": _short(last_line)}
        return bool(tx.rows(self._sql["note_exit"], {"launch_id": launch_id, **how}))

    def note_trouble(self, tx: Transaction, launch_id: str, trouble: str) -> bool:
        return bool(tx.rows(self._sql["note_trouble"], {"launch_id": launch_id, "trouble": _short(trouble)}))

    def adopt(self, tx: Transaction, name: str, launch: int, launch_id: str, process_id: str) -> bool:
        """Whether a process may do its duty: its launch is the current one, and nobody else has shown it."""
        shown = {"name": name, "launch": launch, "launch_id": launch_id, "process_id": process_id}
        return bool(tx.rows(self._sql["adopt_launch"], shown))

    def give_back(self, tx: Transaction, launch_id: str, process_id: str) -> None:
        """A process that was never ready has ended in order."""
        tx.run(self._sql["give_back_launch"], {"launch_id": launch_id, "process_id": process_id})

    def is_current(self, tx: Transaction, launch_id: str, process_id: str) -> bool:
        return bool(tx.rows(self._sql["is_current"], {"launch_id": launch_id, "process_id": process_id}))

    def _move(self, tx: Transaction, move: DutyMove, query: str, *, name: str, **params: Any) -> Duty:
        # A launch id says more than the name, where there is one.
        given = params if "launch_id" in params and move is not DutyMove.LAUNCH else {"name": name, **params}
        rows = tx.rows(self._sql[query], given)
        if not rows:
            raise IllegalDutyMove(name, self.read(tx, name).state, f"being {move.value}", MOVES[move].sources)
        return Duty.from_row(rows[0])


class DutyCache:
    """All duties, read again only when something has changed: the services of a peer look several times a second."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._store = DutyStore(database)
        self._lock = threading.Lock()
        self._version: tuple[int, ...] | None = None
        self._read_at = float("-inf")
        self._duties: Sequence[Duty] = ()

    def all(self) -> Sequence[Duty]:
        """As they are now. Raises when the database is away."""
        with self._lock:
            now = self._clock.monotonic()
            with self._database.glance() as tx:
                version = self._store.version(tx)
            if version != self._version or now - self._read_at > READ_AGAIN_S:
                with self._database.glance() as tx:
                    self._duties = self._store.all(tx)
                self._version, self._read_at = version, now
            return self._duties

    @property
    def last(self) -> Sequence[Duty]:
        """As they were last read."""
        return self._duties


class DeathStore:
    """The table `death`, inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.supervision.duties", "deaths", database.dialect)

    def record(self, tx: Transaction, death: NewDeath) -> bool:
        """Write it down; false when it is known. One that had no process row held nothing."""
        params: dict[str, Any] = {name: getattr(death, name) for name in NewDeath.__dataclass_fields__}
        return bool(tx.rows(self._sql["record_death"], {**params, "freed": None if death.process_id else "{}"}))

    def unfreed(self, tx: Transaction) -> list[Death]:
        return [Death.from_row(row) for row in tx.rows(self._sql["unfreed"], {})]

    def note_freed(self, tx: Transaction, seq: int, freed: Mapping[str, int]) -> None:
        tx.run(self._sql["note_freed"], {"seq": seq, "freed": json.dumps(dict(freed))})

    def note_back(self, tx: Transaction, duty: str) -> None:
        tx.run(self._sql["note_back"], {"duty": duty})

    def page(self, tx: Transaction, *, limit: int, duty: str | None = None, before: int | None = None) -> list[Death]:
        """The newest first; `before` is the `seq` of the last one of the page before."""
        rows = tx.rows(self._sql["list_deaths"], {"limit": limit, "duty": duty, "before": before})
        return [Death.from_row(row) for row in rows]

    def forget(self, tx: Transaction, older_than_us: int, limit: int) -> int:
        return tx.run(self._sql["forget_deaths"], {"older_than": older_than_us, "limit": limit})


@dataclass(frozen=True, slots=True)
class NewDeath:
    """A death before it is written down."""

    duty: str
    launch: int
    process_id: str | None
    host: str
    pid: int | None
    how: DeathKind
    exit_code: int | None
    exit_signal: int | None
    trouble: str
    last_beat_us: int | None
    term: int
    coordinator: str

    @property
    def said(self) -> str:
        """How, as the end of a sentence."""
        match self.how:
            case DeathKind.EXIT:
                return f"ended with exit code {self.exit_code}"
            case DeathKind.SIGNAL:
                return f"was ended by signal {self.exit_signal}"
            case DeathKind.SILENCE:
                return "neither beat nor answered"
            case DeathKind.GONE:
                return "was gone"
            case DeathKind.NEVER_READY:
                return "was not ready in time"


@dataclass(frozen=True, slots=True)
class Death:
    """A death as its row has it."""

    seq: int
    duty: str
    launch: int
    process_id: str | None
    host: str
    pid: int | None
    how: DeathKind
    exit_code: int | None
    exit_signal: int | None
    trouble: str
    last_beat_at: datetime | None
    noticed_at: datetime
    freed: dict[str, int] | None
    back_at: datetime | None
    term: int
    coordinator: str

    @classmethod
    def from_row(cls, row: Row) -> Death:
        seq, duty, launch, process_id, host, pid, how, code, number, trouble, *rest = row
        beat, noticed, freed, back, term, who = rest
        return cls(
            seq,
            duty,
            launch,
            process_id,
            host,
            pid,
            DeathKind(how),
            code,
            number,
            trouble,
            None if beat is None else to_datetime(beat),
            to_datetime(noticed),
            None if freed is None else json.loads(freed),
            None if back is None else to_datetime(back),
            term,
            who,
        )


def _short(text: str) -> str:
    return storable(text)[:LONGEST_TROUBLE]
