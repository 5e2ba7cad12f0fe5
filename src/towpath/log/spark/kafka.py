"""Kafka's topics through Spark's own connector: its options, and the client properties in Java's words.

`log.client` holds properties of librdkafka, which Towpath itself uses; Spark's connector uses Java's client. Where both
have a name for a thing it is translated; what only concerns appending is left out; the rest is refused, because a
property that is dropped in silence may have been the one that encrypts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from towpath.errors import BadSettings
from towpath.log.log import Positions
from towpath.settings import LogSettings

FORMAT = "kafka"
PREFIX = "kafka."
EARLIEST = -2  # what Spark calls it
# How long the broker may hold a fetch for which it has nothing. Java's client says 500 ms, and a task of Spark's waits
# with it: each small batch took half a second longer. A fetch for which there is something never waits.
FETCH_WAIT_MS = 50
REQUEST_MS = 30_000  # as Java's client has it
# After every poll Spark asks the broker twice for the partition's ends. Java's client gives 500 records a poll, of at
# most 1 MiB: so a task would wait for the broker most of the time.
POLL_RECORDS = 20_000
FETCH_BYTES = 8 << 20
MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
# Our name → Java's.
RENAMED = {
    "client.id": "client.id",
    "client.dns.lookup": "client.dns.lookup",
    "client.rack": "client.rack",
    "connections.max.idle.ms": "connections.max.idle.ms",
    "fetch.max.bytes": "fetch.max.bytes",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "max.partition.fetch.bytes": "max.partition.fetch.bytes",
    "fetch.min.bytes": "fetch.min.bytes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "metadata.max.age.ms": "metadata.max.age.ms",
    "reconnect.backoff.ms": "reconnect.backoff.ms",
    "reconnect.backoff.max.ms": "reconnect.backoff.max.ms",
    "retry.backoff.ms": "retry.backoff.ms",
    "socket.timeout.ms": "request.timeout.ms",
    "security.protocol": "security.protocol",
    "sasl.mechanism": "sasl.mechanism",
    "sasl.mechanisms": "sasl.mechanism",
    "ssl.cipher.suites": "ssl.cipher.suites",
    "ssl.endpoint.identification.algorithm": "ssl.endpoint.identification.algorithm",
    "ssl.key.password": "ssl.key.password",
}
# Only for appending, or only about how librdkafka works inside.
LEFT_OUT = frozenset(
    {
        "acks", "batch.num.messages", "batch.size", "broker.address.family", "compression.codec", "compression.level",
        "compression.type", "debug", "delivery.timeout.ms", "enable.idempotence", "linger.ms", "log_level",
        "max.in.flight", "max.in.flight.requests.per.connection", "message.max.bytes", "message.send.max.retries",
        "message.timeout.ms", "partitioner", "queue.buffering.max.kbytes", "queue.buffering.max.messages",
        "queue.buffering.max.ms", "queued.max.messages.kbytes", "request.required.acks", "request.timeout.ms",
        "retries", "socket.keepalive.enable", "socket.nagle.disable", "statistics.interval.ms",
        "transaction.timeout.ms",
    }
)  # fmt: skip
SPECIAL = frozenset(
    {"sasl.username", "sasl.password", "ssl.ca.location", "ssl.certificate.location", "ssl.key.location"}
)


def connector_options(servers: str, settings: LogSettings, topics: list[str]) -> dict[str, str]:
    """The options for every read of these topics."""
    client = {PREFIX + name: value for name, value in java_properties(settings.client).items()}
    return {
        "kafka.fetch.max.wait.ms": str(FETCH_WAIT_MS),
        "kafka.max.partition.fetch.bytes": str(FETCH_BYTES),
        "kafka.max.poll.records": str(POLL_RECORDS),
        **_patience(round(settings.timeout_s * 1000), client),
        **client,
        "kafka.bootstrap.servers": servers,
        "kafka.isolation.level": "read_committed",  # Spark's default shows aborted records
        "subscribe": ",".join(topics),
        "includeHeaders": "true",
        # With "true" a batch whose records expired fails for ever. Loss is found by comparing offsets.
        "failOnDataLoss": "false",
    }


def offsets_option(spots: Positions) -> str:
    """`{"clicks": {"0": 17, "1": -2}}`"""
    by_topic: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(spots.items()):
        by_topic.setdefault(topic, {})[str(partition)] = offset
    return json.dumps(by_topic)


def java_properties(client: Mapping[str, str]) -> dict[str, str]:
    """The properties of librdkafka as Java's client knows them; `BadSettings` for one that it cannot be given."""
    unknown = sorted(set(client) - set(RENAMED) - LEFT_OUT - SPECIAL)
    if unknown:
        raise BadSettings(f"log.client: Spark's Kafka connector has nothing like {unknown[0]}; it cannot read with it")
    translated = {RENAMED[name]: value for name, value in client.items() if name in RENAMED}
    return {**translated, **_login(client), **_certificates(client)}


def _patience(timeout_ms: int, client: Mapping[str, str]) -> dict[str, str]:
    """Shorter timeouts: Spark asks a broker that is away three times, a minute each, before it says so."""
    request_ms = int(client.get("kafka.request.timeout.ms", min(REQUEST_MS, timeout_ms)))
    return {
        "kafka.request.timeout.ms": str(request_ms),
        "kafka.default.api.timeout.ms": str(max(request_ms, timeout_ms)),  # Java's client refuses a shorter one
        "kafkaConsumer.pollTimeoutMs": str(timeout_ms),
        "fetchOffset.numRetries": "1",
    }


def _login(client: Mapping[str, str]) -> dict[str, str]:
    user, password = client.get("sasl.username"), client.get("sasl.password")
    if user is None and password is None:
        return {}
    mechanism = client.get("sasl.mechanism", client.get("sasl.mechanisms", ""))
    if mechanism not in MODULES:
        raise BadSettings(
            f"log.client: sasl.mechanism must be one of {', '.join(MODULES)} for Spark, not {mechanism!r}"
        )
    values = f"username={_quoted(user or '')} password={_quoted(password or '')}"
    return {"sasl.jaas.config": f"{MODULES[mechanism]} required {values};"}


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _certificates(client: Mapping[str, str]) -> dict[str, str]:
    """As text and not as files: executors may be on another host."""
    texts: dict[str, str] = {}
    if "ssl.ca.location" in client:
        texts |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": _text(client, "ssl.ca.location")}
    if "ssl.certificate.location" in client or "ssl.key.location" in client:
        texts["ssl.keystore.type"] = "PEM"
        texts["ssl.keystore.certificate.chain"] = _text(client, "ssl.certificate.location")
        texts["ssl.keystore.key"] = _text(client, "ssl.key.location")
    return texts


def _text(client: Mapping[str, str], name: str) -> str:
    if name not in client:
        raise BadSettings(f"log.client: a certificate of one's own needs {name} too")
    try:
        return Path(client[name]).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise BadSettings(f"log.client: {name}: {client[name]} cannot be read as PEM: {error}") from error
