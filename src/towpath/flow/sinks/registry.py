"""Which reader reads back which kind of sink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from towpath.flow.delivery.ids import DeliveryIds, Strategy
from towpath.flow.sinks.files.reader import FilesReader
from towpath.flow.sinks.files.sink import FilesSink
from towpath.flow.sinks.index.reader import CoordinatesReader, IndexReader
from towpath.flow.sinks.index.sink import IndexSink
from towpath.flow.sinks.sink import OwnReader, OwnSink, Sink, SinkReader, UnreadableSink
from towpath.flow.sinks.table.reader import TableReader
from towpath.flow.sinks.table.sink import TableSink
from towpath.flow.sinks.topic.reader import TopicReader
from towpath.flow.sinks.topic.sink import TopicSink
from towpath.log.log import Log


def open_reader(
    sink: Sink,
    log: Log,
    topics: Mapping[str, Sequence[str]],
    ids: DeliveryIds,
    strategy: Strategy = Strategy.AT_LEAST_ONCE,
) -> SinkReader | IndexReader | UnreadableSink:
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
    return UnreadableSink("this sink offers no delivered(): it cannot be read back")
