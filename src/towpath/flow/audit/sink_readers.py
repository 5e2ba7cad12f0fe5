"""The adapters for the sinks that come with Towpath."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from string import Formatter
from typing import TYPE_CHECKING

from towpath.errors import SinkError
from towpath.flow.audit.readers import Delivered, Flaw, OwnReader, OwnSink, Reach, SinkReader, Unreadable, foreign
from towpath.flow.delivery import DeliveryIds
from towpath.flow.sinks.files import FilesSink
from towpath.flow.sinks.files_reader import written_files
from towpath.flow.sinks.index import IndexSink
from towpath.flow.sinks.index_reader import Found, IndexReader
from towpath.flow.sinks.sink import Sink
from towpath.flow.sinks.table import TableSink
from towpath.flow.sinks.table_errors import sink_errors
from towpath.flow.sinks.topic import TopicSink
from towpath.flow.sinks.topic_record import DELIVERY
from towpath.flow.strategy import Strategy
from towpath.flow.template import Template
from towpath.log.log import Log

if TYPE_CHECKING:
    from towpath.db.tables import Tables

NEWEST_ONLY = "the newest record of a key takes the place of the older ones"


@dataclass(slots=True)
class TableReader:
    """The rows of one table, or of all that the name with its fields may stand for."""

    sink: TableSink
    tables: Tables
    per_batch = False
    is_idempotent = True
    why_part = NEWEST_ONLY
    flaws: list[Flaw] = field(default_factory=list)

    @property
    def reach(self) -> Reach:
        return Reach.PART if self.sink.shape.is_upsert else Reach.ALL

    def delivered(self) -> Iterator[Delivered]:
        with sink_errors(str(self.sink)):
            for name in self._names():
                for id, version in self.tables.scan(name):
                    yield Delivered(bytes(id), f"row of {name} with the version {version}")

    def _names(self) -> list[str]:
        if self.sink.target.is_fixed:
            return [self.sink.target.filler()({})]
        return [name for name in self.tables.names() if is_of(self.sink.target, name)]

    def close(self) -> None:
        self.tables.close()


@dataclass(slots=True)
class FilesReader:
    """All files below a directory. Each batch has files of its own."""

    sink: FilesSink
    reach = Reach.ALL
    why_part = ""
    per_batch = True
    is_idempotent = True
    flaws: list[Flaw] = field(default_factory=list)

    def delivered(self) -> Iterator[Delivered]:
        self.flaws = []
        try:
            for file in written_files(self.sink):
                if file.count != len(file.delivery_ids):
                    self.flaws.append(Flaw(str(file.path), f"{len(file.delivery_ids)} records", f"{file.count}"))
                for id, name in zip(file.delivery_ids, file.ids, strict=True):
                    yield Delivered(id, f"{name} in {file.path}")
        except SinkError as error:
            self.flaws.append(Flaw(error.target, "a file with its ids", str(error)))

    def close(self) -> None:
        pass


@dataclass(slots=True)
class CoordinatesReader:
    """The documents of indices whose ids are made from the places of their records."""

    sink: IndexSink
    index: IndexReader
    topics: Mapping[str, Sequence[str]]
    ids: DeliveryIds
    reach = Reach.ALL
    why_part = ""
    per_batch = False
    is_idempotent = True
    flaws: list[Flaw] = field(default_factory=list)

    def delivered(self) -> Iterator[Delivered]:
        target = starred(self.sink.target)
        self.index.refresh(target)
        return map(self._delivered, self.index.scan(target))

    def named(self, ids: Sequence[str]) -> Iterator[Delivered]:
        """Only the documents of these ids."""
        target = starred(self.sink.target)
        self.index.refresh(target)
        return map(self._delivered, self.index.find(target, ids))

    def _delivered(self, found: Found) -> Delivered:
        name = f"document {found.id} of {found.target}"
        id = delivery_id_of(found.id, self.topics, self.ids)
        return foreign(name) if id is None else Delivered(id, name)

    def close(self) -> None:
        self.index.close()


@dataclass(slots=True)
class TopicReader:
    """The records of topics. Unless the flow is exactly-once a delivery may be there several times."""

    sink: TopicSink
    log: Log
    is_idempotent: bool = False
    reach: Reach = Reach.ALL
    why_part = "the topic keeps its records only for a time"
    per_batch = False
    flaws: list[Flaw] = field(default_factory=list)

    def delivered(self) -> Iterator[Delivered]:
        for topic in self._topics():
            for number, start in sorted(self.log.starts(topic).items()):
                self.reach = Reach.PART if start > 0 else self.reach
                for record in self.log.read(topic, number, start):
                    name = f"{topic}/{number}/{record.offset}"
                    said = dict(record.headers).get(DELIVERY)
                    yield foreign(name) if said is None else Delivered(bytes.fromhex(said.decode()), name)

    def _topics(self) -> list[str]:
        if self.sink.target.is_fixed:
            return [self.sink.target.filler()({})]
        return [topic.name for topic in self.log.topics() if is_of(self.sink.target, topic.name)]

    def close(self) -> None:
        pass


def open_reader(
    sink: Sink,
    log: Log,
    topics: Mapping[str, Sequence[str]],
    ids: DeliveryIds,
    strategy: Strategy = Strategy.AT_LEAST_ONCE,
) -> SinkReader | IndexReader | Unreadable:
    """How an output is read back. An `IndexReader` is for documents whose ids are the flow's own."""
    match sink:
        case TableSink():
            return TableReader(sink, sink.open())
        case FilesSink():
            return FilesReader(sink)
        case IndexSink(id=None):
            return CoordinatesReader(sink, IndexReader(sink), topics, ids)
        case IndexSink():
            return IndexReader(sink)
        case TopicSink():
            return TopicReader(sink, log, strategy.has_marks)
        case OwnSink():
            return OwnReader(sink)
    return Unreadable("this sink offers no delivered(): it cannot be read back")


def delivery_id_of(name: str, topics: Mapping[str, Sequence[str]], ids: DeliveryIds) -> bytes | None:
    """The delivery id behind `topic:incarnation:partition:offset[:ordinal]`; None when it is something else."""
    place = parse_coordinates(name)
    if place is None:
        return None
    topic, incarnation, partition, offset, ordinal = place
    known = topics.get(topic, ())
    return ids.of(known[incarnation], partition, offset, ordinal) if incarnation < len(known) else None


def parse_coordinates(name: str) -> tuple[str, int, int, int, int] | None:
    """Topic, incarnation, partition, offset and ordinal."""
    topic, *numbers = name.split(":")
    if len(numbers) not in (3, 4) or not all(each.isascii() and each.isdigit() for each in numbers):
        return None
    incarnation, partition, offset, ordinal = (*map(int, numbers), 0)[:4]
    return topic, incarnation, partition, offset, ordinal


def is_of(template: Template, name: str) -> bool:
    """Whether a name may have been made from this one by filling in fields."""
    parts = Formatter().parse(template.text)
    pattern = "".join(re.escape(literal) + ("" if field is None else ".*") for literal, field, _, _ in parts)
    return re.fullmatch(pattern, name, re.DOTALL) is not None


def starred(template: Template) -> str:
    """The name with a star for each field: what all its targets have in common."""
    parts = Formatter().parse(template.text)
    return "".join(literal + ("*" if field is not None else "") for literal, field, _, _ in parts)
