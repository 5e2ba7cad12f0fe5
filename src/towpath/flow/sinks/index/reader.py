"""Reading back what an index holds, for the audit: counts, ids and versions, never documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

import orjson

from towpath.errors import SinkError
from towpath.flow.delivery.ids import DeliveryIds
from towpath.flow.failures import ErrorCode
from towpath.flow.sinks.index.client import IndexClient, refused
from towpath.flow.sinks.index.sink import IndexSink
from towpath.flow.sinks.sink import FoundDelivery, SinkReader, foreign
from towpath.flow.sinks.template import starred

IDS_AT_ONCE = 5_000
PAGE = 5_000  # what a server gives at once is 10,000 by default
SCROLL = "2m"
MISSING_IS_EMPTY = "ignore_unavailable=true&allow_no_indices=true"


class IndexReader:
    """Looks into indices by name or pattern (`views-*`). What was written shows after a `refresh`."""

    def __init__(self, sink: IndexSink) -> None:
        self._client = IndexClient(sink.address)

    def refresh(self, target: str) -> None:
        """Make what was written visible to the other methods."""
        self._ask("POST", f"/{_name(target)}/_refresh?{MISSING_IS_EMPTY}")

    def count(self, target: str) -> int:
        """How many documents there are; 0 where there is no index."""
        found = self._ask("GET", f"/{_name(target)}/_count?{MISSING_IS_EMPTY}")
        return int(found["count"])

    def find(self, target: str, ids: Sequence[str]) -> Iterator[IndexedDocument]:
        """The documents of these ids, whatever they were routed by."""
        for start in range(0, len(ids), IDS_AT_ONCE):
            yield from self._matching(target, {"ids": {"values": list(ids[start : start + IDS_AT_ONCE])}})

    def scan(self, target: str) -> Iterator[IndexedDocument]:
        """Every document, in no order, as they were when the scan began."""
        return self._matching(target, {"match_all": {}})

    def _matching(self, target: str, query: dict[str, Any]) -> Iterator[IndexedDocument]:
        search = {"query": query, "size": PAGE, "sort": ["_doc"], "_source": False, "version": True}
        answer = self._ask("POST", f"/{_name(target)}/_search?scroll={SCROLL}&{MISSING_IS_EMPTY}", search)
        scroll_id = answer.get("_scroll_id")
        try:
            while hits := _hits(answer):
                yield from hits
                if len(hits) < PAGE:
                    break
                answer = self._ask("POST", "/_search/scroll", {"scroll": SCROLL, "scroll_id": scroll_id})
                scroll_id = answer.get("_scroll_id", scroll_id)
        finally:
            if scroll_id:
                self._client.request("DELETE", "/_search/scroll", orjson.dumps({"scroll_id": scroll_id}))

    def close(self) -> None:
        self._client.close()

    def _ask(self, method: str, path: str, query: dict[str, Any] | None = None) -> dict[str, Any]:
        answer = self._client.request(method, path, orjson.dumps(query) if query else None)
        if answer.status != 200:
            raise refused(answer, self._client.url)
        found = answer.json()
        if not isinstance(found, dict):
            raise SinkError(ErrorCode.SINK_FAILED, self._client.url, "gave an answer that is not JSON")
        if found.get("_shards", {}).get("failed"):
            # A part of the documents would be taken for all of them.
            raise SinkError(ErrorCode.SINK_FAILED, self._client.url, "some shards did not answer")
        return found


class IndexedDocument(NamedTuple):
    """A document that is there."""

    target: str
    id: str
    version: int


@dataclass
class CoordinatesReader(SinkReader):
    """The documents of indices whose ids are made from the places of their records."""

    sink: IndexSink
    index: IndexReader
    topics: Mapping[str, Sequence[str]]
    ids: DeliveryIds

    def delivered(self) -> Iterator[FoundDelivery]:
        target = starred(self.sink.target)
        self.index.refresh(target)
        return map(self._delivered, self.index.scan(target))

    def named(self, ids: Sequence[str]) -> Iterator[FoundDelivery]:
        """Only the documents of these ids."""
        target = starred(self.sink.target)
        self.index.refresh(target)
        return map(self._delivered, self.index.find(target, ids))

    def _delivered(self, found: IndexedDocument) -> FoundDelivery:
        name = f"document {found.id} of {found.target}"
        id = delivery_id_of(found.id, self.topics, self.ids)
        return foreign(name) if id is None else FoundDelivery(id, name)

    def close(self) -> None:
        self.index.close()


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


def _hits(answer: dict[str, Any]) -> list[IndexedDocument]:
    return [IndexedDocument(hit["_index"], hit["_id"], hit["_version"]) for hit in answer["hits"]["hits"]]


def _name(target: str) -> str:
    return quote(target, safe="*,")
