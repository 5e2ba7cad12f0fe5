"""Whatever is sent in whatever pieces, again, overlapping, and with processes that die: the records are the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.sending_clients import (
    COLUMNS,
    SCHEMA,
    Client,
    connected,
    gateway_sections,
    opened,
    shown,
    taken_records,
)

import towpath
from towpath.core import crash
from towpath.core.clock import SystemClock
from towpath.core.crash import Armed, Crashed, CrashPoint
from towpath.errors import ChunkGap, LineTooLong
from towpath.gateway.factory import open_gateway
from towpath.gateway.lines.lines import Format
from towpath.gateway.service import Gateway
from towpath.gateway.uploads.model import SenderRequest
from towpath.log import NewRecord
from towpath.runtime import Runtime
from towpath.stack.kafka import KafkaServer

POINTS = [
    CrashPoint.SENDER_OPENED,
    CrashPoint.CHUNK_PLAN_BEFORE_COMMIT,
    CrashPoint.CHUNK_PLANNED,
    CrashPoint.CHUNK_SENT,
    CrashPoint.CHUNK_SETTLE_BEFORE_COMMIT,
    CrashPoint.CHUNK_SETTLED,
]

LINES = st.one_of(
    st.builds(lambda id, fare: f"{id},,{fare}".encode(), st.text(alphabet="abé", max_size=3), st.integers(0, 99)),
    st.builds(lambda stop: b'A,"%b",1' % stop, st.sampled_from([b"x", b"two\nlines", b'""', b"a,b", b"\r\n"])),
    st.sampled_from([b"", b"\r", b'"open', b"\xff,,1", b"x" * 70, b'"' + b"y" * 70, b'A,"a"b,1', b'{"id":"a"}', b"{}"]),
    st.binary(max_size=8),
)
FILES = st.builds(
    lambda lines, is_ended: b"\n".join(lines) + (b"\n" if is_ended else b""),
    st.lists(LINES, max_size=12),
    st.booleans(),
)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["send", "send", "send", "repeat", "jump", "connect", "die"]),
        st.integers(1, 90),
        st.integers(0, 40),
    ),
    max_size=14,
)


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    """One for all examples: each has uploads of its own."""
    home = tmp_path_factory.mktemp("gateway")
    database = {"url": f"sqlite:///{home}/towpath.db", "synchronous": "normal"}
    with towpath.connect(**{**gateway_sections(home), "log": {"url": "embedded"}, "database": database}) as runtime:
        yield runtime


@pytest.fixture(scope="module")
def on_kafka(tmp_path_factory: pytest.TempPathFactory, kafka: KafkaServer) -> Iterator[Runtime]:
    home = tmp_path_factory.mktemp("gateway")
    name = f"t{uuid4().hex[:12]}"
    sections: dict[str, Any] = gateway_sections(home)
    input = {"topic": f"{name}.flights", "partitions": 2, "schema": SCHEMA}
    sections["gateway"]["streams"] = {"flights": {"inputs": {"flights": input}}}
    database = {"url": f"sqlite:///{home}/towpath.db", "synchronous": "normal"}
    log = {"url": kafka.url, "namespace": name, "timeout_s": 20.0}
    with towpath.connect(**{**sections, "log": log, "database": database}) as runtime:
        yield runtime


def another(runtime: Runtime) -> Gateway:
    """A gateway that knows nothing of what an older one was at: as that of a new process."""
    common = (runtime.settings, runtime.database, runtime.events, runtime.event_log)
    return open_gateway(*common, lambda: runtime.log, SystemClock())


def sent_at_once(runtime: Runtime, data: bytes, format: Format) -> list[Any]:
    client = connected(runtime.gateway, new_upload(runtime.gateway, format), data)
    client.send_all(len(data) + 1)
    client.finish()
    return result(runtime, client.upload)


def new_upload(gateway: Gateway, format: Format) -> str:
    columns = COLUMNS if format == "csv" else None
    return opened(gateway, SenderRequest("main", "flights", format, columns)).upload.id


def result(runtime: Runtime, upload: str) -> list[Any]:
    topic = runtime.gateway.streams.stream("flights").input("flights").topic
    return [shown(record) for record in taken_records(runtime, topic, upload)]


def sent_in_pieces(runtime: Runtime, data: bytes, format: Format, steps: list[Any], home: Path) -> list[Any]:
    client = connected(another(runtime), new_upload(runtime.gateway, format), data)
    for number, (kind, length, back) in enumerate(steps):
        act(runtime, client, kind, length, back, home / f"{client.upload}-{number}")
    client.connect()
    client.send_all(17)
    client.finish()
    client.gateway.close()
    return result(runtime, client.upload)


def act(runtime: Runtime, client: Client, kind: str, length: int, back: int, once: Path) -> None:
    """One step; what is refused is refused, and the client goes on by what it is told."""
    if kind == "die":
        crash.arm(Armed(f"{POINTS[back % len(POINTS)]}", once=once, victim=0))
    try:
        ask(client, kind, length, back)
    except Crashed:
        client.gateway = another(runtime)
        client.connect()
    finally:
        crash.arm(None)


def ask(client: Client, kind: str, length: int, back: int) -> None:
    try:
        if kind == "connect":
            client.connect()
        elif kind == "jump":
            jump(client, length, back)
        else:
            client.send(length, back=back, sequence=client.sequence if kind == "repeat" else None)
    except LineTooLong:
        client.skip()


def jump(client: Client, length: int, ahead: int) -> None:
    """Leave bytes out: that is refused, and the answer says where to go on."""
    before, client.position = client.position, client.position + ahead
    try:
        client.send(length)
    except ChunkGap as gap:
        client.position = gap.position
    if ahead:
        assert client.position == before


@pytest.mark.part("matrix")
@given(data=FILES, steps=STEPS, format=st.sampled_from(["csv", "csv", "jsonl"]))
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_records_do_not_depend_on_how_they_were_sent(
    embedded: Runtime, tmp_path: Path, data: bytes, steps: list[Any], format: Format
) -> None:
    assert sent_in_pieces(embedded, data, format, steps, tmp_path) == sent_at_once(embedded, data, format)


@pytest.mark.part("matrix")
@given(data=FILES, steps=STEPS)
@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_same_on_kafka(on_kafka: Runtime, tmp_path: Path, data: bytes, steps: list[Any]) -> None:
    assert sent_in_pieces(on_kafka, data, "csv", steps, tmp_path) == sent_at_once(on_kafka, data, "csv")


def test_the_end_of_a_sender_lies_behind_all_its_records(on_kafka: Runtime) -> None:
    """Also while somebody else's transaction holds them back from readers."""
    log, gateway = on_kafka.log, on_kafka.gateway
    topic = gateway.streams.stream("flights").input("flights").topic
    client = connected(gateway, new_upload(gateway, "csv"), b"A1,,1\nA2,,2\n")
    other = log.producer(f"other-{uuid4().hex}")
    with other.transaction() as held:
        held.append(topic, [NewRecord(b"{}", partition=0), NewRecord(b"{}", partition=1)])
        held.flush()
        client.send_all()
        ends = client.finish().sender("main").ends
    other.close()
    assert ends is not None
    for record in taken_records(on_kafka, topic, client.upload):
        assert record.offset < ends[record.partition]
