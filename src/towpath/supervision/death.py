"""Who died, how, when that was noticed, what was freed, and when the duty was done again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from towpath.clock import to_datetime
from towpath.db import Database, Queries, Transaction
from towpath.db.database import Row
from towpath.supervision.death_kind import DeathKind


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


class DeathStore:
    """The table `death`, inside a transaction that the caller opens."""

    def __init__(self, database: Database) -> None:
        self._sql = Queries("towpath.supervision", "deaths", database.dialect)

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
