"""What a record may be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.errors import BadName, BadRecord, BadValue
from towpath.log import NewRecord
from towpath.log.record import check_record, check_records, decode_headers, encode_headers, plain_bytes
from towpath.log.topic import check_topic_name, check_user_group, chosen_retention
from towpath.settings import LogSettings

LIMIT = 10_000

names = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=20)


@given(st.lists(st.tuples(names, st.none() | st.binary(max_size=40)), max_size=5))
def test_headers_come_back_as_they_were(headers: list[tuple[str, bytes | None]]) -> None:
    assert decode_headers(encode_headers(tuple(headers))) == tuple(headers)


def test_headers_of_text_can_be_read_in_the_table() -> None:
    assert (
        encode_headers((("type", "klick größer".encode()), ("none", None))) == '[["type","klick größer"],["none",null]]'
    )


@pytest.mark.parametrize(
    "record",
    [
        NewRecord("text"),  # type: ignore[arg-type]
        NewRecord(b"", key="text"),  # type: ignore[arg-type]
        NewRecord(bytes(LIMIT)),
        NewRecord(b"", key=bytes(LIMIT)),
        NewRecord(b"", headers=(("h", bytes(LIMIT)),)),
        NewRecord(b"", headers=(("ü", b""),)),
        NewRecord(b"", headers=(("", b""),)),
        NewRecord(b"", headers=(("a\nb", b""),)),
        NewRecord(b"", headers=(("h", "text"),)),  # type: ignore[arg-type]
        NewRecord(b"", headers=("hv", 3)),  # type: ignore[arg-type]
        NewRecord(b"", headers=(("one",),)),  # type: ignore[arg-type]
        NewRecord(b"", timestamp_ms=-1),
        NewRecord(b"", timestamp_ms=0),
        NewRecord(b"", timestamp_ms=1 << 60),
        NewRecord(b"", timestamp_ms=1.5),  # type: ignore[arg-type]
    ],
    ids=str,
)
def test_what_no_topic_can_hold_is_refused(record: NewRecord) -> None:
    with pytest.raises(BadRecord):
        check_record(record, LIMIT)
    with pytest.raises(BadRecord):
        check_records([NewRecord(b"good"), record, NewRecord(b"good")], LIMIT)


@given(
    st.lists(
        st.builds(
            NewRecord,
            st.none() | st.binary(max_size=150),
            key=st.none() | st.binary(max_size=60),
            timestamp_ms=st.none() | st.integers(-5, 5),
        ),
        max_size=8,
    )
)
def test_quick_look_at_a_batch_decides_as_the_close_one_does(records: list[NewRecord]) -> None:
    def is_refused(check: object) -> bool:
        try:
            check()  # type: ignore[operator]
        except BadRecord:
            return True
        return False

    assert is_refused(lambda: check_records(records, 200)) == is_refused(
        lambda: [check_record(r, 200) for r in records]
    )


def sized(records: list[NewRecord]) -> list[NewRecord]:
    return [record._replace(headers=(*record.headers, ("more", b"x" * at))) for at, record in enumerate(records)]


@given(
    st.lists(
        st.builds(
            NewRecord,
            st.none() | st.binary(max_size=150),
            key=st.none() | st.binary(max_size=60),
            headers=st.lists(st.tuples(names, st.none() | st.binary(max_size=20)), max_size=3).map(tuple),
            timestamp_ms=st.none() | st.integers(1, 5),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_quick_look_knows_the_size_of_a_batch(records: list[NewRecord]) -> None:
    for batch in (records, sized(records)):
        assert plain_bytes(batch, LIMIT) == sum(check_record(record, LIMIT) for record in batch)


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "ä", "a\n", "a" * 250, "a\0"])
def test_illegal_names_of_topics_are_refused(name: str) -> None:
    with pytest.raises(BadName):
        check_topic_name(name)


@pytest.mark.parametrize("name", ["", "__own", "ä", "g" * 250, "a\nb"])
def test_illegal_names_of_groups_are_refused(name: str) -> None:
    with pytest.raises(BadName):
        check_user_group(name)


@pytest.mark.parametrize("wanted", [0, -1.5, float("nan"), float("inf"), 1e18, "forever"])
def test_illegal_retentions_are_refused(wanted: float | str) -> None:
    with pytest.raises(BadValue):
        chosen_retention(wanted, LogSettings())


def test_retention_is_what_is_asked_for_or_what_the_settings_say() -> None:
    assert chosen_retention(None, LogSettings(retention_s=5.0)) == 5.0
    assert chosen_retention(None, LogSettings(retention_s=None)) is None
    assert chosen_retention("never", LogSettings(retention_s=5.0)) is None
    assert chosen_retention(7, LogSettings(retention_s=5.0)) == 7.0
