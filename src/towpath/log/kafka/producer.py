"""Appends to Kafka, with and without transactions.

One producer of a name lives: `init_transactions` fences the older ones on the broker. The order of a commit: records
are handed over while the block runs; at its end all are delivered, then the positions go into the transaction, then it
commits. Whatever fails before the commit aborts all of it. When the answer to the commit is lost, nobody can say which
it was: `TransactionUnknown`, and the producer has to be opened again, which settles it on the broker; the positions
then say what happened.

A broker looks at batches: it refuses records together with one that is too large, and small ones because together they
are. In a transaction that undoes everything, so batches are made small enough before, for topics that take less at once
than the client would send because somebody else has made them.

A broker tells which records of a batch were at fault, but where it was one only, the client (librdkafka 2.16) reports
that fault for each of its companions. Where several were, the others are told apart.

Outside transactions the client is idempotent, so that its own repeats double nothing.
"""

from __future__ import annotations

import random
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count, repeat
from queue import Empty, SimpleQueue

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from towpath.core import crash
from towpath.core.crash import CrashPoint
from towpath.errors import BadRecord, LogError, LogUnavailable, PartlyAppended, ProducerFenced, TransactionUnknown
from towpath.log.kafka.client import BATCH_OVERHEAD, FENCED, NOT_WRITTEN, REFUSED, KafkaClient, code_of, reason
from towpath.log.kafka.topics import KafkaGroups, KafkaTopics, as_partitions
from towpath.log.log import Positions, check_positions
from towpath.log.record import Headers, NewRecord, Position, check_partitions, check_records
from towpath.log.topic import check_user_group, sequence_group
from towpath.settings import LogSettings

Report = Callable[[KafkaError | None, Message | None], None]
# Bytes of a batch, and what it and its records need beside the user's own bytes.
BATCH_SIZE = 1_000_000  # the client's own, which it takes for a batch unless told otherwise
BATCH_HEADER = 61
LEAST_OVERHEAD = 7  # of a record in its batch
MOST_OVERHEAD = 32
HEADER_OVERHEAD = 6
SLACK = 4_096

BY_KEY = -1  # a partition: the client chooses it by the key
NOW = 0  # a time: the client's own
SERVED_EVERY = 1_000  # records, after which delivery reports are taken

FULL_PAUSE_S = 0.05
RETRY_PAUSE_S = 0.1
CONNECT_TIMEOUT_S = 1.0
LEARN_TIMEOUT_S = 10.0
# The client gives up after its own time; this is for its report to come.
GRACE_S = 5.0
# What the client says of its own accord; a topic or partition may have come since it last looked.
UNLEARNED = frozenset({KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC})


class KafkaAppender:
    """Appends outside transactions: each batch has a client to itself on its way; clients are kept for the next one."""

    def __init__(self, client: KafkaClient, topics: KafkaTopics) -> None:
        self._client = client
        self._topics = topics
        self._idle: SimpleQueue[Producer] = SimpleQueue()
        self._turn = random.randrange(1 << 16)  # noqa: S311 - which partition is first is no secret

    def append(self, topic: str, records: Sequence[NewRecord]) -> list[Position]:
        settings = self._client.settings
        check_records(records, settings.max_record_bytes)
        partitions = self._topics.count(topic)
        check_partitions(topic, records, partitions)
        positions: list[Position | None] = [None] * len(records)
        errors: dict[int, KafkaError] = {}

        def report(at: int, error: KafkaError | None, message: Message | None) -> None:
            if error is not None:
                errors[at] = error
            elif message is not None:
                positions[at] = (message.partition(), message.offset())

        producer = self._producer(topic)
        self._turn = hand_over(producer, topic, records, partitions, self._turn, map(partial, repeat(report), count()))
        crash.here(CrashPoint.APPEND_BEFORE_COMMIT)
        # Until the fate of each record is known; a client whose broker is away says so by itself.
        producer.flush(settings.timeout_s + GRACE_S)
        crash.here(CrashPoint.APPEND_AFTER_COMMIT)
        written = [position for position in positions if position is not None]
        if len(written) < len(records):
            raise self._failure(positions, errors)
        self._idle.put(producer)  # one that has failed is not used again: it may be past repair
        return written

    def close(self) -> None:
        while not self._idle.empty():
            self._idle.get().close()

    def _producer(self, topic: str) -> Producer:
        try:
            return self._idle.get_nowait()
        except Empty:
            producer = self._client.make(Producer, producer_properties(self._client.settings))
        # A client asks for the number of its session as soon as it is made; one that is not connected yet asks again
        # only half a second later. With the broker away the records themselves will tell.
        with suppress(KafkaException):
            producer.list_topics(topic, CONNECT_TIMEOUT_S)
        return producer

    def _failure(self, positions: Sequence[Position | None], errors: dict[int, KafkaError]) -> Exception:
        first = next(iter(errors.values()), None)
        done = [at for at, position in enumerate(positions) if position is not None]
        # One that the broker refused is not there; of one that timed out, or that was never reported, nobody knows.
        unknown = [
            at
            for at, position in enumerate(positions)
            if position is None and (at not in errors or errors[at].code() not in NOT_WRITTEN)
        ]
        if first is not None and not done and not unknown:
            return self._client.failure(first)
        cause = reason(first) if first is not None else f"no answer from {self._client.servers}"
        return PartlyAppended(done, unknown, len(positions), cause)


class KafkaProducer:
    """The living producer of its name, until a newer one is opened anywhere."""

    def __init__(self, client: KafkaClient, topics: KafkaTopics, groups: KafkaGroups, name: str) -> None:
        self.name = name
        self._client = client
        self._topics = topics
        self._groups = groups
        self._is_open = self._is_usable = True
        self._has_begun = False
        settings = client.settings
        properties = {
            **producer_properties(settings),
            # With it librdkafka 2.16 waits for ever for the coordinator of a group that it has thrown away. Without it,
            # a broker that has moved to another address is found when the producer is opened again.
            "metadata.recovery.strategy": "none",
            "transactional.id": f"{settings.namespace}.{name}",
            "delivery.report.only.error": True,  # one failure undoes all of them, so only failures are told
            "transaction.timeout.ms": int(settings.transaction_timeout_s * 1000),
            "message.timeout.ms": int(min(settings.timeout_s, settings.transaction_timeout_s) * 1000),
        }
        self._producer = client.make(Producer, properties)
        self._retry(self._producer.init_transactions)
        crash.here(CrashPoint.PRODUCER_OPENED)
        self._sequence_group = sequence_group(f"{settings.namespace}.{name}")
        self._sequences: dict[str, int] = {}
        self._consumers: dict[str, Consumer] = {}

    @contextmanager
    def transaction(self) -> Iterator[KafkaLogTransaction]:
        self._check_usable()
        try:
            self._producer.begin_transaction()
        except KafkaException as error:
            self._is_usable = code_of(error) not in FENCED and not error.args[0].fatal()
            raise self._client.failure(error, self.name) from error
        self._has_begun = True
        open_one = KafkaLogTransaction(self.name, self._producer, self._client, self._topics, self._sequence)
        try:
            yield open_one
            self._check_usable()
            open_one.flush()
            crash.here(CrashPoint.LOG_TRANSACTION_FILLED)
            self._send_positions(open_one)
        except BaseException:
            # After a record was refused the client has lost count: its next transaction would fail (librdkafka 2.16).
            self._is_usable = self._is_usable and not open_one.has_failed
            self._abort()
            raise
        crash.here(CrashPoint.LOG_TRANSACTION_BEFORE_COMMIT)
        self._commit()
        crash.here(CrashPoint.LOG_TRANSACTION_AFTER_COMMIT)
        self._sequences |= open_one.sequences

    def close(self) -> None:
        if not self._is_open:
            return
        with suppress(ProducerFenced):  # then there is nothing left to abort
            self._abort()
        self._is_open = self._is_usable = False
        for consumer in self._consumers.values():
            consumer.close()
        # One that was fenced cannot abort, and need not: the client warns of that, or raises it once more.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            try:
                self._producer.close()
            except (KafkaException, SystemError):
                self._producer.close()

    def _check_usable(self) -> None:
        if not self._is_usable:
            raise LogError(f"producer {self.name!r} was closed or broke; open it again")

    def _send_positions(self, open_one: KafkaLogTransaction) -> None:
        groups = dict(open_one.positions)
        if open_one.sequences:
            groups[self._sequence_group] = {(topic, 0): count for topic, count in open_one.sequences.items()}
        for group, positions in groups.items():
            metadata = self._consumer(group).consumer_group_metadata()
            self._retry(partial(self._producer.send_offsets_to_transaction, as_partitions(positions), metadata))

    def _commit(self) -> None:
        try:
            self._retry(self._producer.commit_transaction)
            self._has_begun = False
        except LogUnavailable as error:
            self._is_usable = False
            raise TransactionUnknown(f"the answer to the commit was lost: {error}") from error
        except LogError as error:
            cause = error.__cause__
            if not isinstance(cause, KafkaException) or not cause.args[0].txn_requires_abort():
                self._is_usable = False
                raise
            self._abort()
            raise LogUnavailable(f"the transaction was aborted, nothing of it was written: {error}") from error

    def _abort(self) -> None:
        """Abort what is open. If that fails too, the broker does it when the name is opened again, or in time."""
        if not self._has_begun:
            return
        self._has_begun = False
        try:
            self._retry(self._producer.abort_transaction)
        except ProducerFenced:
            self._is_usable = False
            raise
        except LogError:
            self._is_usable = False

    def _retry(self, act: Callable[[float], object]) -> None:
        """Repeat an action while its failure is retriable, until the time is up."""
        deadline = time.monotonic() + self._client.timeout_s
        while True:
            left_s = max(0.1, deadline - time.monotonic())
            try:
                act(left_s)
                return
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    if error.args[0].retriable():
                        raise LogUnavailable(f"{self._client.servers}: {reason(error)}") from error
                    raise self._client.failure(error, self.name) from error
            time.sleep(RETRY_PAUSE_S)

    def _consumer(self, group: str) -> Consumer:
        """The consumer of a group: the only way to the metadata that moving its positions needs."""
        if group not in self._consumers:
            self._consumers[group] = self._groups.consumer(group)
        return self._consumers[group]

    def _sequence(self, topic: str) -> int:
        """How many records without a key have been appended to the topic under this name, by any producer."""
        if topic not in self._sequences:
            own = self._groups.positions(self._sequence_group, [topic])
            self._sequences[topic] = own.get((topic, 0), 0)
        return self._sequences[topic]


class KafkaLogTransaction:
    """An open transaction: records are on their way to the broker while the block runs."""

    def __init__(
        self, name: str, producer: Producer, client: KafkaClient, topics: KafkaTopics, sequence: Callable[[str], int]
    ) -> None:
        self._name = name
        self._producer = producer
        self._client = client
        self._topics = topics
        self._sequence = sequence
        self.sequences: dict[str, int] = {}  # those that this transaction has moved
        self._errors: list[KafkaError] = []
        self._refusals = Refusals()
        self._limits: dict[str, int] = {}  # of the topics that were appended to
        self.positions: dict[str, dict[tuple[str, int], int]] = {}

    def append(self, topic: str, records: Sequence[NewRecord]) -> None:
        settings = self._client.settings
        check_records(records, settings.max_record_bytes)
        partitions = self._topics.count(topic)
        check_partitions(topic, records, partitions)
        first = self.sequences.get(topic)
        if first is None:  # asked of the broker only where a record wants it
            first = self._sequence(topic) if any(each.key is None and each.partition is None for each in records) else 0
        after = first
        limit = self._limits[topic] = self._topics.limit(topic)
        for batch in list(batches_for(topic, limit, records, settings)):
            if is_tight(limit, settings):
                self.flush()  # what was handed over before does not travel with it
            reports = map(partial, repeat(self._note_failure), repeat(topic), batch)
            with self._fatal_errors():
                after = hand_over(self._producer, topic, batch, partitions, after, reports)
        if after != first:
            self.sequences[topic] = after
        self._check()

    def commit_positions(self, group: str, positions: Positions) -> None:
        check_user_group(group)
        check_positions(positions)
        for topic, number in positions:
            self._topics.check_partition(topic, number)
        self.positions.setdefault(group, {}).update(positions)

    def flush(self) -> None:
        with self._fatal_errors():
            left = self._producer.flush(self._client.timeout_s + GRACE_S)
        self._check()
        if left:
            raise LogUnavailable(f"{self._client.servers}: records were not taken within {self._client.timeout_s:g} s")

    @contextmanager
    def _fatal_errors(self) -> Iterator[None]:
        """Translate fatal errors, which any call of the client may raise; during delivery reports as `SystemError`."""
        try:
            yield
        except KafkaException as error:
            raise self._client.failure(error, self._name) from error
        except SystemError as error:
            raise self._fatal_error() from error

    def _fatal_error(self) -> Exception:
        try:
            self._producer.begin_transaction()  # says so, because it can do nothing any more
        except KafkaException as error:
            return self._client.failure(error, self._name)
        return LogError(f"{self._client.servers}: the client of producer {self._name!r} broke")

    @property
    def has_failed(self) -> bool:
        return bool(self._errors)

    def _check(self) -> None:
        """Raise what has gone wrong: after the first failure the transaction can only be aborted."""
        if not self._errors:
            return
        worst = next((each for each in self._errors if each.code() in FENCED | REFUSED), self._errors[0])
        failure = self._client.failure(worst, self._name)
        if isinstance(failure, BadRecord):
            self._check_limits()
            refused, is_sure = self._refusals.told()
            raise BadRecord(str(failure), refused, is_sure=is_sure)
        raise failure

    def _check_limits(self) -> None:
        """Check that limits are what they were: otherwise records may have been refused only for their batch."""
        for topic in self._refusals.topics:
            self._topics.forget_limit(topic)
            if self._topics.limit(topic) != self._limits[topic]:
                raise LogUnavailable(f"{topic} has another max.message.bytes now; nothing was written, try again")

    def _note_failure(self, topic: str, record: NewRecord, error: KafkaError | None, message: Message | None) -> None:
        if error is not None:
            self._errors.append(error)
            partition = message.partition() if message is not None else None
            self._refusals.add(error.code(), topic, -1 if partition is None else partition, record.headers)


class Refusals:
    """Reports of records of a transaction that the broker refused, by the batch that they must have been in."""

    def __init__(self) -> None:
        self._refused: defaultdict[tuple[str, int], list[Headers]] = defaultdict(list)
        self._companions: set[tuple[str, int]] = set()

    def add(self, code: int, topic: str, partition: int, headers: Headers) -> None:
        if code in REFUSED:
            self._refused[topic, partition].append(headers)
        elif code == KafkaError._INVALID_DIFFERENT_RECORD:
            self._companions.add((topic, partition))

    @property
    def topics(self) -> set[str]:
        return {topic for topic, _ in self._refused}

    def told(self) -> tuple[list[Headers], bool]:
        """The refused records, and whether each of them was certainly at fault itself."""
        sure = [
            headers
            for place, found in self._refused.items()
            if len(found) == 1 or place in self._companions
            for headers in found
        ]
        return (sure, True) if sure else (next(iter(self._refused.values()), []), False)


def producer_properties(settings: LogSettings) -> dict[str, object]:
    """The properties that all of Towpath's producers have in common."""
    return {
        "enable.idempotence": True,
        "acks": "all",
        "partitioner": "murmur2_random",  # the library's own default puts keys elsewhere than Java's clients
        "linger.ms": 1,
        "message.max.bytes": settings.max_record_bytes + BATCH_OVERHEAD,
        "message.timeout.ms": int(settings.timeout_s * 1000),
        "queue.buffering.max.messages": 200_000,
        "queue.buffering.max.kbytes": max(65_536, 4 * settings.max_record_bytes >> 10),
        # Another process may add partitions.
        "topic.metadata.refresh.interval.ms": 10_000,
    }


def hand_over(
    producer: Producer,
    topic: str,
    records: Sequence[NewRecord],
    partitions: int,
    sequence: int,
    reports: Iterable[Report],
) -> int:
    """Hand all records to the client; returns the sequence number after the last one without key and partition."""
    produce = producer.produce
    for at, (report, (value, key, headers, timestamp_ms, number)) in enumerate(zip(reports, records, strict=False)):
        if number is None:
            number = BY_KEY
            if key is None:
                number = sequence % partitions
                sequence += 1
        while True:
            try:
                if headers or timestamp_ms:
                    produce(topic, value, key, number, report, None, timestamp_ms or NOW, list(headers) or None)
                else:
                    produce(topic, value, key, number, report)
                break
            except BufferError:
                producer.poll(FULL_PAUSE_S)
            except KafkaException as error:
                if error.args[0].code() not in UNLEARNED or not _learn(producer, topic, number):
                    report(error.args[0], None)
                    break
        if at % SERVED_EVERY == 0:
            producer.poll(0)
    return sequence


def batches_for(
    topic: str, limit: int, records: Sequence[NewRecord], settings: LogSettings
) -> Iterator[Sequence[NewRecord]]:
    """Split records into batches that the topic takes; `BadRecord` when one is certainly too large.

    Only the broker knows whether a record that exceeds the limit by a few bytes is too large.
    """
    if limit >= settings.max_record_bytes + BATCH_OVERHEAD:
        yield records
        return
    tight = is_tight(limit, settings)
    if not tight and _are_small(limit, records):
        yield records
        return
    may_shrink = "compression.type" in settings.client or "compression.codec" in settings.client
    sizes = [_size(record) for record in records]
    for size in sizes:
        if not may_shrink and size + BATCH_HEADER + LEAST_OVERHEAD > limit:
            raise BadRecord(
                f"a record of {size} bytes is larger than {topic} takes (max.message.bytes={limit})", is_too_large=True
            )
    if not tight:
        yield records
        return
    begin, together = 0, BATCH_HEADER
    for at, (record, size) in enumerate(zip(records, sizes, strict=True)):
        most = size + MOST_OVERHEAD + HEADER_OVERHEAD * len(record.headers)
        if together + most > limit and at > begin:
            yield records[begin:at]
            begin, together = at, BATCH_HEADER
        together += most
    yield records[begin:]


def is_tight(limit: int, settings: LogSettings) -> bool:
    """Whether the client, left to itself, might send more at once than the topic takes."""
    batch_size = int(settings.client.get("batch.size", BATCH_SIZE))
    return limit < min(batch_size + SLACK, settings.max_record_bytes + BATCH_OVERHEAD)


def _learn(producer: Producer, topic: str, number: int) -> bool:
    """Make the client look for new topics and partitions; returns whether this partition exists."""
    try:
        found = producer.list_topics(topic, LEARN_TIMEOUT_S).topics[topic].partitions
    except KafkaException:
        return False
    return bool(found) if number == BY_KEY else number in found


def _are_small(limit: int, records: Sequence[NewRecord]) -> bool:
    """Whether every record certainly fits, found quickly for large batches of small records."""
    longest = max((len(record.value or b"") for record in records), default=0)
    return longest + BATCH_OVERHEAD <= limit


def _size(record: NewRecord) -> int:
    """The bytes of key, value and headers, without what a batch adds."""
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers
