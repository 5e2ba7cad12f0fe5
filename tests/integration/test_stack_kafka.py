"""KafkaServer against the real broker: what a test or a trial relies on."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from towpath.errors import ServerFailed
from towpath.stack.daemon import free_port
from towpath.stack.kafka import KafkaServer
from towpath.stack.server import Server
from towpath.testing.proxy import CuttingProxy


@pytest.fixture
def own(tmp_path: Path) -> Iterator[KafkaServer]:
    """A broker to be killed and moved. Another one died here while it made its empty data."""
    data_dir = tmp_path / "with a space"
    (data_dir / "formatting").mkdir(parents=True)
    (data_dir / "formatting" / "bootstrap.checkpoint").write_bytes(b"half")
    with KafkaServer(data_dir) as server:
        yield server


def make_topic(server: KafkaServer) -> str:
    name = f"t{uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    admin.create_topics([NewTopic(name, 2)])[name].result(60)
    return name


def write(server: KafkaServer, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": server.bootstrap, "message.max.bytes": 80 << 20})
    producer.produce(topic, value)
    assert producer.flush(60) == 0


def read_all(server: KafkaServer, topic: str, count: int) -> list[bytes]:
    limits = {"fetch.message.max.bytes": 80 << 20, "receive.message.max.bytes": 200 << 20}
    values: list[bytes] = []
    options = {"bootstrap.servers": server.bootstrap, "group.id": uuid4().hex, "auto.offset.reset": "earliest"}
    consumer = Consumer({**options, **limits})
    consumer.subscribe([topic])
    while len(values) < count:
        message = consumer.poll(60)
        assert message is not None, f"only {len(values)} of {count} came"
        values.append(message.value())
    consumer.close()
    return values


def test_it_fits_the_shape(kafka: KafkaServer) -> None:
    assert isinstance(kafka, Server)
    assert kafka.is_running
    assert kafka.is_healthy()
    assert kafka.settings == {"log": {"url": f"kafka://127.0.0.1:{kafka.port}"}}
    assert "Kafka Server started" in kafka.log_tail(1_000_000)


def test_topics_are_made_only_when_asked_for(kafka: KafkaServer) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.list_topics("nobody-made-this", timeout=60)
    assert "nobody-made-this" not in admin.list_topics(timeout=60).topics


def test_it_takes_the_largest_record(kafka: KafkaServer) -> None:
    topic = make_topic(kafka)
    value = bytes(64 << 20)
    write(kafka, topic, value)
    assert read_all(kafka, topic, 1) == [value]


@pytest.mark.part("kills")
def test_data_survive_a_crash_and_a_move_to_another_port_behind_a_proxy(own: KafkaServer) -> None:
    topic = make_topic(own)
    write(own, topic, b"before")
    own.kill()
    assert not own.is_running
    port = free_port()
    with CuttingProxy(port) as proxy, KafkaServer(own.data_dir, port, proxy.port, {"num.io.threads": "3"}) as moved:
        assert moved.bootstrap == f"127.0.0.1:{proxy.port}"
        write(moved, topic, b"after")
        proxy.cut_all()
        assert proxy.cuts > 0, "clients were sent to the proxy"
        assert sorted(read_all(moved, topic, 2)) == [b"after", b"before"]
        found = KafkaServer(own.data_dir)
        found.start()
        assert (found.port, found.pids) == (port, moved.pids)
        assert "num.io.threads=3" in (own.data_dir / "server.properties").read_text()


def test_a_busy_port_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(ServerFailed, match=f"port {port} "), KafkaServer(tmp_path / "data", port):
            pass
    assert not (tmp_path / "data" / "topics").exists()


def test_a_failed_start_shows_the_log_and_leaves_nothing(tmp_path: Path) -> None:
    server = KafkaServer(tmp_path / "data", settings={"node.id": "1", "log.segment.bytes": "many"})
    with pytest.raises(ServerFailed, match=r"log\.segment\.bytes"):
        server.start()
    assert not server.is_running
