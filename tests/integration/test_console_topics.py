"""Pages of topics and records: exact to the byte, harmless, and without what somebody may not see."""

from __future__ import annotations

from collections.abc import Callable
from html import unescape

import pytest
from tests.support.console import HOSTILE, MakeVisitor, Visitor, has_run
from tests.support.flow_world import FLOW, TOPIC, FlowWorld

from towpath.log import NewRecord
from towpath.runtime import Runtime

AT = f"/topics/{TOPIC}"
EXACT = b'{"n": 1.10000000000000000001, "big": 12345678901234567890}'


@pytest.fixture
def visitor(make_visitor: MakeVisitor, desk_runtime: Runtime) -> Visitor:
    return make_visitor("viewer", desk_runtime)


@pytest.fixture
def send(desk_runtime: Runtime) -> Callable[..., None]:
    """Append records to the topic, which is made for them."""
    desk_runtime.log.create_topic(TOPIC, 2)

    def send(*values: bytes | None, **said: object) -> None:
        desk_runtime.log.append(TOPIC, [NewRecord(value, partition=0, **said) for value in values])  # type: ignore[arg-type]

    return send


def test_topics_are_listed_and_found_by_name(visitor: Visitor, desk_runtime: Runtime) -> None:
    visitor.text("/topics")
    for name in ("a", "b.errors", "c.errors"):
        desk_runtime.log.create_topic(name, 1)
    desk_runtime.log.append("a", [NewRecord(b"1"), NewRecord(b"2")])
    page = visitor.text("/topics")
    assert 'href="/topics/a"' in page
    assert '<td class="num">2</td>' in page
    found = visitor.text("/topics?name=errors")
    assert 'href="/topics/a"' not in found
    assert 'href="/topics/b.errors"' in found
    assert 'href="/topics/a"' not in visitor.text("/topics?name=zzz")


def test_many_topics_are_turned_over_by_pages(
    visitor: Visitor, desk_runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("towpath.web.console.flows.topics.ROWS", 2)
    for name in "abc":
        desk_runtime.log.create_topic(name, 1)
    assert 'href="/topics?after=b" rel="next"' in visitor.text("/topics")
    assert 'href="/topics/c"' in visitor.text("/topics?after=b")


def test_a_topic_tells_of_partitions_groups_and_flows(visitor: Visitor, desk_runtime: Runtime) -> None:
    world = FlowWorld(desk_runtime)
    world.send(b"1", b"2", b"3")
    desk_runtime.log.commit_positions("readers", {(TOPIC, 0): 1})
    page = visitor.text(AT)
    assert f">{TOPIC}/0</a>" in page
    assert "readers" in page
    assert f'{AT}/records?partition=0&amp;offset=1">1</a>' in page
    assert f"/flows/{FLOW}" in page
    visitor.text(f"/topics/{FLOW}.errors")


def test_there_is_no_such_topic(visitor: Visitor, send: Callable[..., None]) -> None:
    for path in ("/topics/none", "/topics/none/records", "/topics/none/records/0/0"):
        assert visitor.get(path).status_code == 404
    assert visitor.get(f"{AT}/records?partition=9").status_code == 404
    for query in ("partition=x", "offset=-1", "offset=1e9", "at=yesterday", f"offset={10**30}"):
        assert visitor.get(f"{AT}/records?{query}").status_code == 422, query


def test_records_are_read_from_the_end_and_turned_over_both_ways(
    visitor: Visitor, send: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("towpath.web.console.flows.topics.RECORDS", 3)
    send(*(b"value %d" % number for number in range(8)))
    last = visitor.text(f"{AT}/records")
    assert "value 7" in last
    assert "value 4" not in last
    assert f'{AT}/records?partition=0&amp;offset=2" rel="prev"' in last
    assert 'rel="next"' not in last
    middle = visitor.text(f"{AT}/records?partition=0&offset=2")
    assert "value 2" in middle
    assert "value 5" not in middle
    assert f'{AT}/records?partition=0&amp;offset=5" rel="next"' in middle
    visitor.text(f"{AT}/records?partition=1")


def test_what_is_deleted_or_not_there_yet_is_said(
    visitor: Visitor, send: Callable[..., None], desk_runtime: Runtime
) -> None:
    send(b"old", b"new")
    desk_runtime.log.delete_before(TOPIC, {0: 1})
    page = visitor.text(f"{AT}/records?partition=0&offset=0")
    assert "new" in page
    visitor.text(f"{AT}/records?partition=0&offset=77")
    assert visitor.get(f"{AT}/records/0/0").status_code == 404
    assert visitor.get(f"{AT}/records/0/99").status_code == 404


def test_records_are_found_by_their_time(visitor: Visitor, send: Callable[..., None]) -> None:
    send(b"before", timestamp_ms=1_700_000_000_000)
    send(b"after", timestamp_ms=1_800_000_000_000)
    page = visitor.text(f"{AT}/records?partition=0&at=2025-01-01T00:00")
    assert "after" in page
    assert "before</td>" not in page


def test_a_record_is_shown_exactly(visitor: Visitor, send: Callable[..., None]) -> None:
    send(EXACT, key=b"k1", headers=(("source", b"web"), ("raw", b"\xff\x00")), timestamp_ms=1_800_000_000_000)
    page = unescape(visitor.text(f"{AT}/records/0/0"))
    assert "1.10000000000000000001" in page
    assert "12345678901234567890" in page
    assert EXACT.decode() in page  # as it came
    assert "k1" in page
    assert "ff 00" in page
    assert "2027-01-15 08:00:00" in page


def test_bytes_are_shown_as_numbers_and_a_tombstone_as_none(visitor: Visitor, send: Callable[..., None]) -> None:
    send(b"\xff\xfe\x00", None)
    assert "00000000  ff fe 00" in visitor.text(f"{AT}/records/0/0")
    assert "tombstone" in visitor.text(f"{AT}/records/0/1")
    both = visitor.text(f"{AT}/records")
    assert "ff fe 00" in both
    assert "tombstone" in both


def test_a_long_value_is_cut_in_the_list_between_characters(visitor: Visitor, send: Callable[..., None]) -> None:
    text = ("x" + "ä" * 3000).encode()
    send(text)
    page = visitor.text(f"{AT}/records")
    assert "xää" in page
    assert "bytes</span>" not in page


def test_what_stands_in_records_is_text(visitor: Visitor, send: Callable[..., None]) -> None:
    for text in HOSTILE:
        send(text.encode(), key=text.encode(), headers=(("h", text.encode()),))
    pages = [visitor.text(f"{AT}/records"), *(visitor.text(f"{AT}/records/0/{at}") for at in range(len(HOSTILE)))]
    for page in pages:
        assert not has_run(page)
        assert "\u202e" not in page  # nothing turns the page around
        assert "\x1b" not in page
    assert "{{7*7}}" in pages[3]


def test_masked_fields_are_not_shown_to_who_may_not_see_them(
    make_visitor: MakeVisitor, make_desk: Callable[..., Runtime]
) -> None:
    runtime = make_desk(desk={"masked": {FLOW: ["email", "$key", "$headers.who"]}})
    world = FlowWorld(runtime)
    world.send(b'{"email":"a@b.example","n":7}', key=b"k-secret", headers=(("who", b"w-secret"), ("kind", b"order")))
    runtime.log.create_topic("elsewhere", 1)
    runtime.log.append("elsewhere", [NewRecord(b'{"mail":"a@b.example"}')])
    viewer, admin = make_visitor("viewer", runtime), make_visitor("admin", runtime)
    for path in (f"{AT}/records", f"{AT}/records/0/0", "/topics/elsewhere/records", "/topics/elsewhere/records/0/0"):
        hidden, seen = viewer.text(path), admin.text(path)
        for secret in ("a@b.example", "k-secret", "w-secret"):
            assert secret not in hidden
        assert "a@b.example" in seen
    assert "order" in viewer.text(f"{AT}/records/0/0")


def test_a_record_leads_to_where_it_is(visitor: Visitor, desk_runtime: Runtime) -> None:
    world = FlowWorld(desk_runtime)
    world.send(b"{}")
    page = unescape(visitor.text(f"{AT}/records/0/0"))
    assert f'href="/trace?flow={FLOW}&topic={TOPIC}&partition=0&offset=0"' in page
