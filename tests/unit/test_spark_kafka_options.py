"""Client properties in Java's words."""

from __future__ import annotations

from pathlib import Path

import pytest

from towpath.errors import BadSettings
from towpath.log.spark.kafka import LEFT_OUT, RENAMED, SPECIAL, connector_options, java_properties, offsets_option
from towpath.settings import LogSettings


def test_reads_are_committed_ones_with_headers_and_survive_loss() -> None:
    settings = LogSettings(url="kafka://a:1", client={"client.id": "x", "linger.ms": "5"})
    assert connector_options("a:1,b:2", settings, ["t", "u"]) == {
        "kafka.fetch.max.wait.ms": "50",
        "kafka.max.partition.fetch.bytes": "8388608",
        "kafka.max.poll.records": "20000",
        "kafka.request.timeout.ms": "30000",
        "kafka.default.api.timeout.ms": "60000",
        "kafkaConsumer.pollTimeoutMs": "60000",
        "fetchOffset.numRetries": "1",
        "kafka.client.id": "x",
        "kafka.bootstrap.servers": "a:1,b:2",
        "kafka.isolation.level": "read_committed",
        "subscribe": "t,u",
        "includeHeaders": "true",
        "failOnDataLoss": "false",
    }


@pytest.mark.parametrize(
    ("client", "request_ms", "call_ms"), [({}, "500", "500"), ({"socket.timeout.ms": "9000"}, "9000", "9000")]
)
def test_spark_waits_for_a_broker_as_long_as_others_do(client: dict[str, str], request_ms: str, call_ms: str) -> None:
    options = connector_options("a:1", LogSettings(url="kafka://a:1", timeout_s=0.5, client=client), ["t"])
    assert options["kafka.request.timeout.ms"] == request_ms
    assert options["kafka.default.api.timeout.ms"] == call_ms


def test_user_and_password_become_a_login() -> None:
    client = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-256",
        "sasl.username": "me",
        "sasl.password": 'a"b\\c',
    }
    assert java_properties(client) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="me" password="a\\"b\\\\c";',
    }


def test_certificates_travel_as_text(tmp_path: Path) -> None:
    for name in ("ca", "certificate", "key"):
        (tmp_path / name).write_text(f"-----{name}-----")
    client = {f"ssl.{name}.location": str(tmp_path / name) for name in ("ca", "certificate", "key")}
    assert java_properties(client) == {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "-----ca-----",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "-----certificate-----",
        "ssl.keystore.key": "-----key-----",
    }


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ({"enable.ssl.certificate.verification": "false"}, "enable.ssl.certificate.verification"),
        ({"sasl.username": "me", "sasl.mechanism": "OAUTHBEARER"}, "PLAIN, SCRAM-SHA-256"),
        ({"sasl.password": "x"}, "one of"),
        ({"ssl.ca.location": "/nowhere/ca.pem"}, "/nowhere/ca.pem"),
        ({"ssl.key.location": "/nowhere/key.pem"}, "ssl.certificate.location"),
    ],
)
def test_what_java_cannot_be_told_is_refused(client: dict[str, str], text: str) -> None:
    with pytest.raises(BadSettings, match=text):
        java_properties(client)


def test_every_property_is_dealt_with_in_one_way() -> None:
    assert not set(RENAMED) & LEFT_OUT
    assert not (set(RENAMED) | LEFT_OUT) & SPECIAL


def test_offsets_are_by_topic_and_partition() -> None:
    assert offsets_option({("u", 0): 5, ("t", 10): -2, ("t", 9): 3}) == '{"t": {"9": 3, "10": -2}, "u": {"0": 5}}'
