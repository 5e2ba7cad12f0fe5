"""The smaller parts of the audit: counting, spilling, reading ids back, and the page that lists the places."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.audit_world import ID, IDS, OUTPUT, TOPIC, simple_stage

from towpath.flow.audit.expected import VersionCheck
from towpath.flow.audit.outputs import BUCKETS, Buckets
from towpath.flow.audit.rows import OffsetSet, runs, uncovered
from towpath.flow.audit.view import OffsetTally
from towpath.flow.delivery.ids import version_of
from towpath.flow.delivery.places import RecordPlace
from towpath.flow.delivery.positions import OffsetRange
from towpath.flow.sinks.index.reader import CoordinatesReader, IndexedDocument, parse_coordinates
from towpath.flow.sinks.index.sink import index
from towpath.flow.sinks.registry import open_reader
from towpath.flow.sinks.sink import NullSink, OwnReader, UnreadableSink, Versioned
from towpath.flow.sinks.template import Template, is_of, starred

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "places.md"
WHOLE = OffsetRange(TOPIC, ID, 0, 0, 40)
offsets = st.integers(0, 39)


@given(st.sets(offsets), st.lists(st.tuples(offsets, offsets), min_size=1), st.integers(0, 39))
def test_a_tally_counts_any_range_between_its_edges(
    there: set[int], pairs: list[tuple[int, int]], kept_from: int
) -> None:
    places = [WHOLE._replace(start=min(pair), stop=max(pair)) for pair in pairs]
    tally = OffsetTally((edge for place in places for edge in (place.start, place.stop)), kept_from)
    tally.add(sorted(there))
    for place in places:
        assert tally.count(place) == sum(place.start <= offset < place.stop for offset in there)
        assert tally.is_whole(place) == (place.is_empty or place.start >= kept_from)


@given(st.lists(st.tuples(offsets, offsets)))
def test_what_is_uncovered_is_in_no_cover(pairs: list[tuple[int, int]]) -> None:
    covers = [WHOLE._replace(start=min(pair), stop=max(pair)) for pair in pairs]
    covered = {offset for each in covers for offset in range(each.start, each.stop)}
    left = [offset for each in uncovered(WHOLE, covers) for offset in range(each.start, each.stop)]
    assert left == [offset for offset in range(40) if offset not in covered]
    assert [offset for each in runs(WHOLE, left) for offset in range(each.start, each.stop)] == left


@given(st.lists(st.integers(5, 300)))
def test_marks_are_a_set_of_offsets(given: list[int]) -> None:
    marks = OffsetSet(WHOLE._replace(start=5, stop=301))
    news = [marks.add(offset) for offset in given]
    assert marks.count == sum(news) == len(set(given))
    assert {offset for offset in range(400) if offset in marks} == set(given)
    with pytest.raises(ValueError, match="not between"):
        marks.add(4)


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 9_000))
def test_buckets_give_back_every_row_once(count: int) -> None:
    """Also those that have gone to files: each bucket keeps 64 KiB in memory."""
    rows = [hashlib.sha256(b"%d" % number).digest() * 16 for number in range(count)]
    with Buckets(32 * 16) as buckets:
        for row in rows:
            buckets.add(row)
        assert buckets.count == count
        assert sorted(buckets) == sorted(rows)
        assert all(row[0] % BUCKETS == 5 for row in buckets.rows(5))


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("clicks:0:1:17", ("clicks", 0, 1, 17, 0)),
        ("a.b-c:2:0:5:3", ("a.b-c", 2, 0, 5, 3)),
        ("clicks:0:1", None),
        ("clicks:0:1:x", None),
        ("clicks:0:1:²", None),
        ("user-7", None),
    ],
)
def test_ids_from_coordinates(name: str, place: object) -> None:
    assert parse_coordinates(name) == place


class Documents:
    """An index that holds these."""

    def __init__(self, *ids: str) -> None:
        self._ids = ids

    def refresh(self, target: str) -> None:
        assert target == "views-*"

    def scan(self, target: str) -> Iterator[IndexedDocument]:
        return (IndexedDocument("views-1", id, 1) for id in self._ids)


def test_documents_of_an_index_are_known_by_their_ids() -> None:
    held: Any = Documents("clicks:0:0:7:1", "clicks:1:0:7", "somebody's")
    reader = CoordinatesReader(index("views-{day}"), held, {TOPIC: [ID]}, IDS)
    first, other, foreign = reader.delivered()
    assert first.delivery_id == IDS.of(ID, 0, 7, 1)
    assert {"clicks:0:0:7:1", "views-1"} <= set(first.name.split())
    known = {IDS.of(ID, 0, 7, 0), first.delivery_id}
    assert {other.delivery_id, foreign.delivery_id}.isdisjoint(known)


def test_versions_of_documents_with_ids_of_the_flows_own() -> None:
    beyond = [OffsetRange(TOPIC, ID, 0, 10, 12)]
    check = VersionCheck(simple_stage(), OUTPUT, beyond, has_input_versions=True)
    documents = [Versioned(version_of(0, 11), "a"), Versioned(version_of(0, 12), "b"), Versioned(version_of(1, 0), "c")]
    one, other = (set(each.found.split()) for each in check.run(documents))
    assert {"b", "12"} <= one
    assert {"c", "0"} <= other
    assert check.found == 3
    free = VersionCheck(simple_stage(), OUTPUT, beyond, has_input_versions=False)
    assert list(free.run(documents)) == []


class Own(NullSink):
    """A sink of a user's own that can be read back."""

    def delivered(self) -> Iterator[bytes]:
        return iter([b"1" * 32])


def test_which_sinks_can_be_read_back() -> None:
    log: Any = None
    nowhere = open_reader(NullSink(Template("x"), None, None), log, {}, IDS)
    assert isinstance(nowhere, UnreadableSink)
    assert "delivered()" in nowhere.why
    own = open_reader(Own(Template("x"), None, None), log, {}, IDS)
    assert isinstance(own, OwnReader)
    assert [each.delivery_id for each in own.delivered()] == [b"1" * 32]


def test_a_template_as_a_pattern() -> None:
    template = Template("views-{day}-{{x}}")
    assert starred(template) == "views-*-{x}"
    names = ["views-1-{x}", "views--{x}", "views-1-{x}y", "my-views-1-{x}", "views-1"]
    assert [name for name in names if is_of(template, name)] == ["views-1-{x}", "views--{x}"]


def test_the_page_lists_every_place_in_order() -> None:
    listed = re.findall(r"^\| `([a-z ]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert listed == [str(place) for place in RecordPlace]
