"""How Towpath talks to Kafka: the properties of its clients, and what their errors mean."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from towpath.errors import BadRecord, BadSettings, LogError, LogUnavailable, ProducerFenced
from towpath.settings import LogSettings

logger = logging.getLogger("towpath.kafka")
T = TypeVar("T")
# Room for what the broker adds to a record.
BATCH_OVERHEAD = 64 << 10
PAUSE_S = 0.05
SHORTEST_S = 0.1
# What the log's promises hang on.
OWN_PROPERTIES = frozenset(
    {
        "acks",
        "allow.auto.create.topics",
        "auto.offset.reset",
        "bootstrap.servers",
        "delivery.report.only.error",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.idempotence",
        "enable.partition.eof",
        "group.id",
        "group.instance.id",
        "isolation.level",
        "message.max.bytes",
        "metadata.broker.list",
        "metadata.recovery.strategy",
        "partitioner",
        "request.required.acks",
        "transaction.timeout.ms",
        "transactional.id",
    }
)
FENCED = frozenset({KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED})
AWAY = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._RESOLVE,
        KafkaError._WAIT_COORD,
        KafkaError._DESTROY,
        KafkaError._WAIT_CACHE,
        KafkaError._NOENT,  # no partition has a leader: the broker has just begun
        KafkaError.UNKNOWN_TOPIC_OR_PART,  # of a topic that is there: this broker has not heard of it yet
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.INVALID_REPLICATION_FACTOR,  # of the broker's own choosing: too few brokers are up
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
    }
)
TOO_LARGE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG_SIZE, KafkaError.RECORD_LIST_TOO_LARGE})
REFUSED = TOO_LARGE | {KafkaError.INVALID_TIMESTAMP, KafkaError.INVALID_RECORD}
# After these a record is certainly not in the topic; after all others it may be.
NOT_WRITTEN = REFUSED | {
    KafkaError._INVALID_DIFFERENT_RECORD,  # it was sent together with one that was refused
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._PURGE_QUEUE,
}


class KafkaClient:
    """One cluster: its administrator's client, and how other clients for it are made."""

    def __init__(self, servers: str, settings: LogSettings) -> None:
        for name in sorted(OWN_PROPERTIES & settings.client.keys()):
            raise BadSettings(f"log.client: {name} is the log's own: with another value its promises would not hold")
        self.servers = servers
        self.settings = settings
        self.timeout_s = settings.timeout_s
        self.admin = self.make(AdminClient)

    def make(self, kind: Callable[[dict[str, Any]], T], properties: Mapping[str, Any] | None = None) -> T:
        """A client with the properties that all clients have, the user's own, and those of this kind."""
        merged = {
            "bootstrap.servers": self.servers,
            "client.id": "towpath",
            "socket.keepalive.enable": True,
            # A broker that comes back at another address is found by asking the servers of the settings again.
            "metadata.recovery.strategy": "rebootstrap",
            "metadata.recovery.rebootstrap.trigger.ms": 5_000,
            "reconnect.backoff.max.ms": 1_000,
            "logger": _ClientLog(),
            **self.settings.client,
            **(properties or {}),
        }
        try:
            return kind(merged)
        except KafkaException as error:
            raise BadSettings(f"log.client: {reason(error)}") from error

    def once(self, act: Callable[[float], T]) -> T:
        """Run an action that must not be repeated: one whose answer is lost may have been carried out."""
        try:
            return act(self.timeout_s)
        except FutureTimeout as error:
            raise LogUnavailable(f"{self.servers}: no answer within {self.timeout_s:g} s") from error

    def patiently(self, act: Callable[[float], T]) -> T:
        """Run an action, given the seconds left, again while the broker is away or not ready, until time is up."""
        deadline = time.monotonic() + self.timeout_s
        while True:
            try:
                return act(max(SHORTEST_S, deadline - time.monotonic()))
            except KafkaException as error:
                failure = self.failure(error)
                if not isinstance(failure, LogUnavailable) or time.monotonic() > deadline:
                    raise failure from error
            except FutureTimeout as error:
                raise LogUnavailable(f"{self.servers}: no answer within {self.timeout_s:g} s") from error
            time.sleep(PAUSE_S)

    def failure(self, error: KafkaException | KafkaError, producer: str = "") -> Exception:
        """The Towpath error for an error of the client, where the caller knows no more specific one."""
        code = code_of(error)
        if code in FENCED:
            return ProducerFenced(producer)
        if code in AWAY:
            return LogUnavailable(f"{self.servers}: {reason(error)}")
        if code in TOO_LARGE:
            return BadRecord(
                f"{self.servers}: {reason(error)}; the topic's max.message.bytes is smaller than the record"
            )
        if code in REFUSED:
            return BadRecord(f"{self.servers} refuses the record: {reason(error)}")
        return LogError(f"{self.servers}: {reason(error)}")


def code_of(error: KafkaException | KafkaError) -> int:
    inner = error.args[0] if isinstance(error, KafkaException) else error
    return int(inner.code())


def reason(error: KafkaException | KafkaError) -> str:
    inner = error.args[0] if isinstance(error, KafkaException) else error
    return str(inner.str())


class _ClientLog:
    """Logs at level info: the library calls every lost connection an error, and what matters is raised to callers."""

    def log(self, _level: int, text: str, *arguments: object) -> None:
        logger.info(text, *arguments)
