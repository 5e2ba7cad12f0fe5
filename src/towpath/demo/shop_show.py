"""The main job, from the first event to the account of where each of them is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from towpath.demo.shop import TOPIC, shop
from towpath.demo.shop_events import FATES, Kind, shop_events
from towpath.flow.audit.audit import Audit
from towpath.flow.audit.verdict import Verdict
from towpath.flow.codes import ErrorCode
from towpath.flow.delivery import DeliveryIds
from towpath.flow.error_record import ErrorRecord
from towpath.flow.flow import Flow
from towpath.flow.sinks.files import files
from towpath.flow.sinks.table import TableSink, table
from towpath.log.log import Log
from towpath.runtime import Runtime

TABLE, FILES = "table", "files"
SALES = "sales"
PARTITIONS = 2
SENT_AT_ONCE = 2_000
BATCH = 5_000  # small enough to see several of them

Coordinates = tuple[int, int]  # partition and offset


@dataclass(slots=True)
class KindAccount:
    """What became of the events of one kind, as it was found in the sinks and in the error topic."""

    kind: Kind
    events: int = 0
    loaded: int = 0
    failed: Counter[int] = field(default_factory=Counter)  # by code

    @property
    def filtered(self) -> int:
        """What is in neither place; the ledger must say the same."""
        return self.events - self.loaded - sum(self.failed.values())

    @property
    def is_as_expected(self) -> bool:
        fate = FATES[self.kind]
        found = (self.loaded, self.filtered, dict(self.failed))
        return (
            found
            == {
                "loaded": (self.events, 0, {}),
                "filtered": (0, self.events, {}),
                "failed": (0, 0, {int(fate.code or 0): self.events}),
            }[fate.place]
        )

    def to_json(self) -> dict[str, Any]:
        failed = {str(code): count for code, count in self.failed.items()}
        return {
            "kind": self.kind,
            "events": self.events,
            "loaded": self.loaded,
            "filtered": self.filtered,
            "failed": failed,
            "is_as_expected": self.is_as_expected,
        }


class ShopShow:
    """The events, the flow, and the account at the end."""

    def __init__(self, runtime: Runtime, directory: Path) -> None:
        self._runtime = runtime
        url = f"sqlite:///{directory}/shop.db"
        self._table: TableSink = table(SALES, url=url, columns={"order_id": "bigint", "points": "bigint"})
        self.flow: Flow = shop([(TABLE, self._table), (FILES, files(directory / "files" / "{type}"))])
        self._sent: dict[Coordinates, Kind] = {}

    def send(self, count: int, tell: Callable[[int], None]) -> None:
        """Put so many events into the topic."""
        log = self._runtime.log
        log.create_topic(TOPIC, PARTITIONS)
        events = shop_events(count)
        while portion := list(islice(events, SENT_AT_ONCE)):
            places = log.append(TOPIC, [record for _, record in portion])
            self._sent |= {place: kind for place, (kind, _) in zip(places, portion, strict=True)}
            tell(len(self._sent))

    def accounts(self) -> list[KindAccount]:
        """Every event looked for in the table and in the error topic."""
        accounts = {kind: KindAccount(kind) for kind in Kind}
        loaded, errors = self._loaded(), self._errors(self._runtime.log)
        for place, kind in self._sent.items():
            account = accounts[kind]
            account.events += 1
            if place in errors:
                account.failed[int(errors[place])] += 1
            elif place in loaded:
                account.loaded += 1
        return [account for account in accounts.values() if account.events]

    def audit(self) -> Verdict:
        runtime = self._runtime
        return Audit(runtime.database, runtime.log, self.flow.name, deep=self.flow).run()

    def _loaded(self) -> set[Coordinates]:
        [stage] = self.flow.stages()
        topic_id = self._runtime.log.topic(TOPIC).id
        ids = DeliveryIds(self.flow.name, stage.name, TABLE)
        tables = self._table.open()
        try:
            found = {delivery_id for delivery_id, _ in tables.scan(SALES)}
        finally:
            tables.close()
        return {place for place in self._sent if ids.of(topic_id, *place, 0) in found}

    def _errors(self, log: Log) -> dict[Coordinates, ErrorCode]:
        found = {}
        for partition, start in log.starts(self.flow.error_topic).items():
            for record in log.read(self.flow.error_topic, partition, start):
                error = ErrorRecord.read(record)
                found[error.partition, error.offset] = error.failure.code
        return found
