"""A flow as the desk sees it: error records, outcomes and what lies in its re-entry topic, without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from towpath.db import Database
from towpath.db.database import Query
from towpath.desk.background import open_intake
from towpath.desk.cases.blobs import blobs_of
from towpath.desk.intake.service import DeskIntake
from towpath.flow.delivery.positions import OffsetRange
from towpath.flow.failures import ErrorCode, RecordFailure
from towpath.flow.records.errors import PREFIX, BatchName, ErrorWriter, error_records, gap_record, names_of
from towpath.flow.records.reentry import CORRELATION, KIND, carried, said_by
from towpath.flow.stage.store import StageStore
from towpath.flow.topics import FlowTopics
from towpath.flow.worker.report import FailedRecord
from towpath.log.record import NewRecord, Record
from towpath.notify.model import Notice
from towpath.runtime import Runtime

STAGE = "main"
NO_CITY = RecordFailure(ErrorCode.NOT_VALID, "priced", "ValueError", "no city 'Ulm' for order 17")
TABLES = (
    *("desk_group", "desk_fingerprint", "desk_tally", "desk_case", "desk_body", "desk_trace", "desk_attempt"),
    *("desk_edit", "desk_history", "desk_position", "desk_forgotten", "desk_outbox", "desk_relay", "desk_lane"),
)
# What depends on when a process was where it was, and numbers that a transaction which was undone has used up.
VOLATILE = frozenset({"made_at", "moved_at", "taken_at", "at", "settled_at", "seq", "due_at", "owner"})


@dataclass
class Heard:
    """Somebody to whom the desk tells what people should hear of."""

    notices: list[Notice] = field(default_factory=list)

    def tell(self, tx: object, notice: Notice) -> None:
        self.notices.append(notice)


class DeskFlow:
    """One flow with one stage that reads the topic `orders`."""

    def __init__(self, runtime: Runtime, name: str = "shop", partitions: int = 1, topic_id: str = "orders-id") -> None:
        self.runtime = runtime
        self.name = name
        self.topic_id = topic_id
        self._times = count(1_700_000_000_000, 1_000)
        self.topics = FlowTopics.of(name)
        self.topics.ensure(runtime.log, partitions)
        with runtime.database.transaction() as tx:
            StageStore(runtime.database).ensure(tx, name, STAGE, {})

    def batch(self, hash: str, number: int = 0) -> BatchName:
        return BatchName(self.name, STAGE, "1", 1, number, hash, "p1")

    def fail(
        self,
        *offsets: int,
        failure: RecordFailure = NO_CITY,
        hash: str = "b0",
        value: bytes | None = None,
        key: bytes | None = None,
        headers: tuple[tuple[str, bytes | None], ...] = (),
        output: str | None = None,
        order: str | None = None,
    ) -> None:
        """Records of `orders` have failed in a batch."""
        failed = [
            FailedRecord(
                *("orders", 0, offset, 1_000_000 + offset, key),
                b'{"n":%d}' % offset if value is None else value,
                *(headers, failure, output, None),
            )
            for offset in offsets
        ]
        self.tell(error_records(failed, self.batch(hash), {"orders": self.topic_id}, order=order))

    def fail_again(self, back: Record, failure: RecordFailure = NO_CITY, hash: str = "b1") -> None:
        """A record that came back has failed once more."""
        one = FailedRecord(
            back.topic,
            back.partition,
            back.offset,
            back.timestamp_ms,
            back.key,
            back.value,
            back.headers,
            failure,
            None,
            None,
        )
        self.tell(error_records([one], self.batch(hash), {}, lambda one: carried(one.headers)))
        self.outcome(back, "failed", failure.step, hash)

    def gap(self, start: int, stop: int, hash: str = "b0") -> None:
        self.tell([gap_record(OffsetRange("orders", self.topic_id, 0, start, stop), "deleted", self.batch(hash))])

    def outcome(self, back: Record, fate: str = "loaded", step: str = "", hash: str = "b1") -> None:
        """What became of a record that came back."""
        details = {"kind": KIND, **names_of(self.batch(hash)), **carried(back.headers), "fate": fate, "step": step}
        headers = tuple((PREFIX + name, text.encode()) for name, text in details.items())
        key = said_by(back.headers)[CORRELATION].encode()
        self.runtime.log.append(self.topics.outcomes, [NewRecord(None, key, headers)])

    def tell(self, records: Iterable[NewRecord]) -> None:
        """Put records into the error topic, as flows do. Each has failed a second after the one before."""
        box = ErrorWriter(self.runtime.log, self.topics.errors, self.max_bytes, self.blobs)
        box.send(record._replace(timestamp_ms=next(self._times)) for record in records)

    @property
    def max_bytes(self) -> int:
        return self.runtime.settings.log.max_record_bytes

    @property
    def blobs(self) -> Path:
        return Path(self.runtime.settings.flow.directory).absolute() / self.name / "blobs"


def intake_of(runtime: Runtime, heard: Heard | None = None) -> DeskIntake:
    """The intake of a runtime, that tells its notices to `heard`."""
    parts = (runtime.settings, runtime.database, lambda: runtime.log, runtime.events, runtime.event_log)
    return open_intake(*parts, heard or Heard())


def take_all(intake: DeskIntake) -> int:
    """Take in all that there is; returns how many records that were."""
    done = 0
    while taken := intake.run_once().done:
        done += taken
    return done


def rows(database: Database, statement: str) -> list[tuple[Any, ...]]:
    """What a statement of a test finds."""
    with database.read() as tx:
        return tx.rows(Query("test", statement, uses_now=False), {})


def table(database: Database, name: str, without: Iterable[str] = VOLATILE) -> list[dict[str, Any]]:
    """A whole table, sorted, without some columns."""
    columns = columns_of(database, name)
    left_out = set(without)
    found = [
        {column: _plain(value) for column, value in zip(columns, row, strict=True) if column not in left_out}
        for row in rows(database, f"select {', '.join(columns)} from {name}")
    ]
    return sorted(found, key=_order)


def desk_tables(database: Database, names: Sequence[str] = TABLES) -> dict[str, list[dict[str, Any]]]:
    """The whole desk. Groups are numbered anew: a transaction that was undone has used up numbers."""
    numbers = {id: at for at, (id,) in enumerate(rows(database, "select id from desk_group order by id"))}
    found = {name: table(database, name) for name in names}
    for each in found.get("desk_group", ()):
        each["id"] = numbers[each["id"]]
    for name in names:
        for each in found[name]:
            if each.get("group_id") is not None:
                each["group_id"] = numbers[each["group_id"]]
        found[name].sort(key=_order)
    return found


def _order(row: dict[str, Any]) -> str:
    return repr(sorted(row.items()))


def columns_of(database: Database, name: str) -> list[str]:
    if database.dialect == "sqlite":
        return [row[0] for row in rows(database, f"select name from pragma_table_info('{name}')")]
    found = f"""select column_name::text from information_schema.columns
                where table_name = '{name}' and table_schema = current_schema() order by ordinal_position"""
    return [row[0] for row in rows(database, found)]


def check_tallies(database: Database) -> None:
    """Tallies are what is there, and every case has its attempts and, until it is settled, its body."""
    counted = rows(database, "select group_id, state, count(*) from desk_case group by group_id, state order by 1, 2")
    kept = rows(database, "select group_id, state, cases from desk_tally where cases <> 0 order by 1, 2")
    assert counted == kept
    attempts = "select count(*) from desk_attempt where desk_attempt.case_id = desk_case.id"
    assert rows(database, f"select id from desk_case where attempts <> ({attempts})") == []
    bodies = "exists (select 1 from desk_body where case_id = desk_case.id)"
    settled = "settled_at is not null"
    assert rows(database, f"select id from desk_case where kind <> 'gap' and ({bodies}) = ({settled})") == []


def blob_names(runtime: Runtime) -> set[str]:
    directory = blobs_of(runtime.settings).directory
    return {path.name for path in directory.iterdir() if not path.name.startswith(".")} if directory.is_dir() else set()


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview) else str(value) if type(value).__name__ == "UUID" else value
