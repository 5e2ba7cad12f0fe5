"""Transactions of Kafka. One producer of a name lives: `init_transactions` fences the older ones on the broker.

The order of a commit: records are handed over while the block runs; at its end all are delivered, then the positions
go into the transaction, then it commits. Whatever fails before the commit aborts all of it. When the answer to the
commit is lost, nobody can say which it was: `TransactionUnknown`, and the producer has to be opened again, which
settles it on the broker; the positions then say what happened.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import repeat

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import Producer as Client

from towpath import crash
from towpath.crash import CrashPoint
from towpath.errors import BadRecord, LogError, LogUnavailable, ProducerFenced, TransactionUnknown
from towpath.log.groups import check_user_group, sequence_group
from towpath.log.kafka_appender import GRACE_S, producer_properties
from towpath.log.kafka_client import FENCED, REFUSED, KafkaClient, code_of, reason
from towpath.log.kafka_deliveries import hand_over
from towpath.log.kafka_groups import KafkaGroups, as_partitions
from towpath.log.kafka_limits import batches_for, is_tight
from towpath.log.kafka_refusals import Refusals
from towpath.log.kafka_topics import KafkaTopics
from towpath.log.log import Positions
from towpath.log.position_store import check_positions
from towpath.log.record import NewRecord, check_partitions, check_records

RETRY_PAUSE_S = 0.1


class KafkaLogTransaction:
    """An open transaction: records are on their way to the broker while the block runs."""

    def __init__(
        self, name: str, client: Client, kafka: KafkaClient, topics: KafkaTopics, sequence: Callable[[str], int]
    ) -> None:
        self._name = name
        self._client = client
        self._kafka = kafka
        self._topics = topics
        self._sequence = sequence
        self.sequences: dict[str, int] = {}  # those that this transaction has moved
        self._errors: list[KafkaError] = []
        self._refusals = Refusals()
        self._limits: dict[str, int] = {}  # of the topics that were appended to
        self.positions: dict[str, dict[tuple[str, int], int]] = {}

    def append(self, topic: str, records: Sequence[NewRecord]) -> None:
        settings = self._kafka.settings
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
            reports = map(partial, repeat(self._failed), repeat(topic), batch)
            with self._fatal_errors():
                after = hand_over(self._client, topic, batch, partitions, after, reports)
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
            left = self._client.flush(self._kafka.timeout_s + GRACE_S)
        self._check()
        if left:
            raise LogUnavailable(f"{self._kafka.servers}: records were not taken within {self._kafka.timeout_s:g} s")

    @contextmanager
    def _fatal_errors(self) -> Iterator[None]:
        """The client raises these wherever it is called; where it gives reports just then, it forgets what it was."""
        try:
            yield
        except KafkaException as error:
            raise self._kafka.failure(error, self._name) from error
        except SystemError as error:
            raise self._fatal_error() from error

    def _fatal_error(self) -> Exception:
        try:
            self._client.begin_transaction()  # says so, because it can do nothing any more
        except KafkaException as error:
            return self._kafka.failure(error, self._name)
        return LogError(f"{self._kafka.servers}: the client of producer {self._name!r} broke")

    @property
    def has_failed(self) -> bool:
        return bool(self._errors)

    def _check(self) -> None:
        """Raise what has gone wrong: after the first failure the transaction can only be aborted."""
        if not self._errors:
            return
        worst = next((each for each in self._errors if each.code() in FENCED | REFUSED), self._errors[0])
        failure = self._kafka.failure(worst, self._name)
        if isinstance(failure, BadRecord):
            self._check_limits()
            refused, is_sure = self._refusals.told()
            raise BadRecord(str(failure), refused, is_sure=is_sure)
        raise failure

    def _check_limits(self) -> None:
        """Records may have been refused for the company they were in, where a limit is not what it was."""
        for topic in self._refusals.topics:
            self._topics.forget_limit(topic)
            if self._topics.limit(topic) != self._limits[topic]:
                raise LogUnavailable(f"{topic} has another max.message.bytes now; nothing was written, try again")

    def _failed(self, topic: str, record: NewRecord, error: KafkaError | None, message: Message | None) -> None:
        if error is not None:
            self._errors.append(error)
            partition = message.partition() if message is not None else None
            self._refusals.add(error.code(), topic, -1 if partition is None else partition, record.headers)


class KafkaProducer:
    """The living producer of its name, until a newer one is opened anywhere."""

    def __init__(self, kafka: KafkaClient, topics: KafkaTopics, groups: KafkaGroups, name: str) -> None:
        self.name = name
        self._kafka = kafka
        self._topics = topics
        self._groups = groups
        self._is_open = self._is_usable = True
        self._has_begun = False
        settings = kafka.settings
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
        self._client = kafka.make(Client, properties)
        self._retried(self._client.init_transactions)
        crash.here(CrashPoint.PRODUCER_OPENED)
        self._sequence_group = sequence_group(f"{settings.namespace}.{name}")
        self._sequences: dict[str, int] = {}
        self._consumers: dict[str, Consumer] = {}

    @contextmanager
    def transaction(self) -> Iterator[KafkaLogTransaction]:
        self._check_usable()
        self._call(self._client.begin_transaction)
        self._has_begun = True
        open_one = KafkaLogTransaction(self.name, self._client, self._kafka, self._topics, self._sequence)
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
        self._close_client()

    def _close_client(self) -> None:
        # One that was fenced cannot abort, and need not: the client warns of that, or raises it once more.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            try:
                self._client.close()
            except (KafkaException, SystemError):
                self._client.close()

    def _check_usable(self) -> None:
        if not self._is_usable:
            raise LogError(f"producer {self.name!r} was closed or broke; open it again")

    def _send_positions(self, open_one: KafkaLogTransaction) -> None:
        groups = dict(open_one.positions)
        if open_one.sequences:
            groups[self._sequence_group] = {(topic, 0): count for topic, count in open_one.sequences.items()}
        for group, positions in groups.items():
            metadata = self._consumer(group).consumer_group_metadata()
            self._retried(partial(self._client.send_offsets_to_transaction, as_partitions(positions), metadata))

    def _commit(self) -> None:
        try:
            self._retried(self._client.commit_transaction)
            self._has_begun = False
        except LogUnavailable as error:
            self._is_usable = False
            raise TransactionUnknown(f"the answer to the commit was lost: {error}") from error
        except LogError as error:
            if not _is_abortable(error):
                self._is_usable = False
                raise
            self._abort()
            raise LogUnavailable(f"the transaction was aborted, nothing of it was written: {error}") from error

    def _abort(self) -> None:
        """Undo what is open. Where even that fails, the broker does it when the name is opened again, or in time."""
        if not self._has_begun:
            return
        self._has_begun = False
        try:
            self._retried(self._client.abort_transaction)
        except ProducerFenced:
            self._is_usable = False
            raise
        except LogError:
            self._is_usable = False

    def _retried(self, act: Callable[[float], object]) -> None:
        """Again while the broker says that it may be tried again, until the time is over."""
        deadline = time.monotonic() + self._kafka.timeout_s
        while True:
            left_s = max(0.1, deadline - time.monotonic())
            try:
                act(left_s)
                return
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    if error.args[0].retriable():
                        raise LogUnavailable(f"{self._kafka.servers}: {reason(error)}") from error
                    raise self._kafka.failure(error, self.name) from error
            time.sleep(RETRY_PAUSE_S)

    def _call(self, act: Callable[[], object]) -> None:
        try:
            act()
        except KafkaException as error:
            self._is_usable = code_of(error) not in FENCED and not error.args[0].fatal()
            raise self._kafka.failure(error, self.name) from error

    def _consumer(self, group: str) -> Consumer:
        """The only way to what a transaction has to know of a group whose positions it moves."""
        if group not in self._consumers:
            self._consumers[group] = self._groups.consumer(group)
        return self._consumers[group]

    def _sequence(self, topic: str) -> int:
        """How many records without a key have been appended to the topic under this name, by whomever."""
        if topic not in self._sequences:
            own = self._groups.positions(self._sequence_group, [topic])
            self._sequences[topic] = own.get((topic, 0), 0)
        return self._sequences[topic]


def _is_abortable(error: LogError) -> bool:
    cause = error.__cause__
    return isinstance(cause, KafkaException) and bool(cause.args[0].txn_requires_abort())
