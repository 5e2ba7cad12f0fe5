"""`towpath demo` from the first event to the account of where each of them is."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from towpath.demo.shop import FATES, NAME, TOPIC, ShopEventKind, shop, shop_events
from towpath.flow.audit.audit import Audit
from towpath.flow.audit.balance import AuditVerdict
from towpath.flow.delivery.ids import DeliveryIds
from towpath.flow.failures import ErrorCode
from towpath.flow.flow import Flow
from towpath.flow.records.errors import ErrorRecord
from towpath.flow.sinks.files.sink import files
from towpath.flow.sinks.index.reader import CoordinatesReader, IndexReader
from towpath.flow.sinks.index.sink import IndexSink, index
from towpath.flow.sinks.sink import SinkReader
from towpath.flow.sinks.table.reader import TableReader
from towpath.flow.sinks.table.sink import TableSink, table
from towpath.flow.topics import FlowTopics
from towpath.log.log import Log
from towpath.runtime import Runtime

TABLE, INDEX, FILES = "table", "index", "files"
SALES = "sales"
PARTITIONS = 2
SENT_AT_ONCE = 2_000
BATCH = 5_000  # small enough to see several of them

Coordinates = tuple[int, int]  # partition and offset


@dataclass(slots=True)
class KindAccount:
    """What became of the events of one kind, as it was found in the sinks and in the error topic."""

    kind: ShopEventKind
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
    """The events, the flow, and the account at the end.

    `run` is part of all names on servers, which others use too: what is there already is never read, written to or
    deleted. With `index_url` events are loaded into indices, by their type, in place of a table.
    """

    def __init__(self, runtime: Runtime, directory: Path, run: str = "", index_url: str | None = None) -> None:
        self._runtime = runtime
        ending = f"-{run}" if run else ""
        name = NAME + ending
        self.topic = TOPIC + ending
        self._output = TABLE if index_url is None else INDEX
        self.sink: TableSink | IndexSink = (
            table(SALES, url=f"sqlite:///{directory}/shop.db", columns={"order_id": "bigint", "points": "bigint"})
            if index_url is None
            else index(name + "-{type}", url=index_url)
        )
        outputs = [(self._output, self.sink), (FILES, files(directory / "files" / "{type}"))]
        self.flow: Flow = shop(outputs, name=name, source=self.topic)
        self._sent: dict[Coordinates, ShopEventKind] = {}

    @property
    def topics(self) -> tuple[str, ...]:
        """All topics that the demo makes."""
        own = FlowTopics.of(self.flow.name, self.flow.error_topic)
        return self.topic, own.errors, own.reentry, own.outcomes, own.marks

    def send(self, count: int) -> None:
        """Append events to a new topic. Refused when the topic exists, or the server of the sink is away."""
        log = self._runtime.log
        self.sink.check(self._runtime.settings)
        log.create_topic(self.topic, PARTITIONS)
        events = shop_events(count)
        while portion := list(islice(events, SENT_AT_ONCE)):
            places = log.append(self.topic, [record for _, record in portion])
            self._sent |= {place: kind for place, (kind, _) in zip(places, portion, strict=True)}

    def accounts(self) -> list[KindAccount]:
        """Every event looked for in the sink and in the error topic."""
        accounts = {kind: KindAccount(kind) for kind in ShopEventKind}
        loaded, errors = self._loaded(), self._errors(self._runtime.log)
        for place, kind in self._sent.items():
            account = accounts[kind]
            account.events += 1
            if place in errors:
                account.failed[int(errors[place])] += 1
            elif place in loaded:
                account.loaded += 1
        return [account for account in accounts.values() if account.events]

    def audit(self) -> AuditVerdict:
        runtime = self._runtime
        return Audit(runtime.database, runtime.log, self.flow.name, deep=self.flow).run()

    def _loaded(self) -> set[Coordinates]:
        [stage] = self.flow.stages()
        topic_id = self._runtime.log.topic(self.topic).id
        ids = DeliveryIds(self.flow.name, stage.name, self._output)
        with closing(self._reader(topic_id, ids)) as reader:
            found = {each.delivery_id for each in reader.delivered()}
        return {place for place in self._sent if ids.of(topic_id, *place, 0) in found}

    def _reader(self, topic_id: str, ids: DeliveryIds) -> SinkReader:
        if isinstance(self.sink, IndexSink):
            return CoordinatesReader(self.sink, IndexReader(self.sink), {self.topic: [topic_id]}, ids)
        return TableReader(self.sink, self.sink.open())

    def _errors(self, log: Log) -> dict[Coordinates, ErrorCode]:
        found = {}
        for partition, start in log.starts(self.flow.error_topic).items():
            for record in log.read(self.flow.error_topic, partition, start):
                error = ErrorRecord.read(record)
                found[error.partition, error.offset] = error.failure.code
        return found
