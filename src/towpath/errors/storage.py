"""Errors of the queue, the database and the log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from towpath.errors.base import Refused, TowpathError


class UnknownInbox(Refused):
    """Nobody has registered that inbox. Open it once (`queue.inbox(name)`), or mend the name."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.known = sorted(known)
        shown = ", ".join(self.known[:10]) or "none yet"
        more = f" and {len(self.known) - 10} more" if len(self.known) > 10 else ""
        super().__init__(f"no inbox is named {name!r}; known inboxes: {shown}{more}. A reader makes one by opening it.")


class UnknownMessage(Refused):
    """No message has that id: it never existed, or the janitor has deleted it after its retention time."""

    def __init__(self, message_id: str) -> None:
        self.message_id = message_id
        super().__init__(f"no message has the id {message_id!r} (never sent, or deleted after its retention time)")


class DuplicateMessage(Refused):
    """A message with that id is in the queue already: a repeated send after `CommitUnknown` was in fact done."""


class IllegalMove(Refused):
    """The message is not in a state from which this move is allowed. Look at it again: someone was faster."""

    def __init__(self, message_id: str, state: str, move: str, allowed: Iterable[str]) -> None:
        self.message_id = message_id
        self.state = state
        self.move = move
        self.allowed = tuple(allowed)
        super().__init__(
            f"message {message_id} is {state}: {move} is allowed only from {' or '.join(self.allowed) or 'no state'}"
        )


class ChangedMeanwhile(Refused):
    """Somebody else changed the message since you read it. Look at it again before you change it."""

    def __init__(self, message_id: str) -> None:
        self.message_id = message_id
        super().__init__(f"message {message_id} was changed by somebody else since you read it; look at it again")


class ClaimLost(Refused):
    """This process does not hold the claim any more. Its work on the message does not count; somebody else has it."""

    def __init__(self, message_ids: Iterable[str]) -> None:
        self.message_ids = list(message_ids)
        shown = ", ".join(self.message_ids[:5]) + (" …" if len(self.message_ids) > 5 else "")
        super().__init__(
            f"the claim on {shown} was taken away (lease ran out, or an operator moved it); the late finish is refused"
        )


class NoReplyExpected(Refused):
    """The message is a notice: its sender left no inbox for an answer."""


class BadRecord(Refused):
    """A topic cannot hold this record: too large, or a key, header or time of the wrong kind. Nothing was written.

    `refused` are the headers of the records that a broker has refused in a transaction, which undid all of it; None
    when it was found out before anything was on its way. Unless `is_sure`, all but one of them may have been refused
    for nothing but the company they were in. `is_too_large`: larger than a limit that is known here.
    """

    def __init__(
        self,
        message: str,
        refused: Iterable[tuple[tuple[str, bytes | None], ...]] | None = None,
        *,
        is_sure: bool = True,
        is_too_large: bool = False,
    ) -> None:
        self.refused = None if refused is None else tuple(refused)
        self.is_sure = is_sure
        self.is_too_large = is_too_large
        super().__init__(message)


class UnknownTopic(Refused):
    """There is no topic of that name. Make it (`towpath topic create`), or mend the name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"there is no topic {name!r}; `towpath topic list` shows them, `towpath topic create` makes one"
        )


class UnknownPartition(Refused):
    """The topic has no partition of that number. Partitions are numbered from 0."""

    def __init__(self, topic: str, partition: int, partitions: int) -> None:
        self.topic = topic
        self.partition = partition
        self.partitions = partitions
        super().__init__(f"topic {topic!r} has no partition {partition}: its partitions are 0 to {partitions - 1}")


class TopicExists(Refused):
    """There is a topic of that name already. Use it, or choose another name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"there is a topic {name!r} already")


class OffsetOutOfRange(Refused):
    """The offset lies below the start of the partition (its records were deleted) or beyond its end."""

    def __init__(self, topic: str, partition: int, offset: int, start: int, end: int) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.start = start
        self.end = end
        super().__init__(f"{topic}/{partition} has no offset {offset}: it starts at {start} and ends before {end}")


class NoAnswer(TowpathError):
    """A request did not get its answer."""

    def __init__(self, message_id: str, text: str) -> None:
        self.message_id = message_id
        super().__init__(text)


class AnswerTimeout(NoAnswer):
    """The answer has not come in the time given. The request goes on; wait for it again by its id."""


class RequestDied(NoAnswer):
    """The request is DEAD or was deleted: no answer will come."""


class DatabaseError(TowpathError):
    """The database did not do what was asked."""


class DatabaseUnavailable(DatabaseError):
    """The database is away, locked, full or restarting. Nothing was written; the same call may be made again."""


class CommitUnknown(DatabaseError):
    """The connection broke while committing: the work was written whole or not at all, and nobody can say which.

    Sending again with the same message id is safe: `DuplicateMessage` then means that it was written.
    """


class WriterReplaced(DatabaseError):
    """A later start of the same stage, or a later batch, writes to this output. This one must not write any more."""


class PartlySent(DatabaseError):
    """A batch that goes in several commits was cut off. `sent` are in the queue, `unknown` perhaps, the rest not."""

    def __init__(self, sent: Sequence[str], unknown: Sequence[str], unsent: int, cause: Exception) -> None:
        self.sent = list(sent)
        self.unknown = list(unknown)
        self.unsent = unsent
        super().__init__(
            f"{len(self.sent)} messages were sent, {len(self.unknown)} perhaps, {unsent} not: {cause}. "
            "Send only the last again."
        )


class SchemaError(DatabaseError):
    """The tables in the database and this version of Towpath do not fit together."""


class SchemaTooNew(SchemaError):
    """A newer Towpath has upgraded this database. Install that version (or newer) here."""


class SchemaTooOld(SchemaError):
    """The database lacks migrations that this version needs. Run `towpath schema upgrade`."""


class SchemaDiffers(SchemaError):
    """A table, index or constraint is not what the migrations make. `towpath schema verify` lists the differences."""

    def __init__(self, shown: str, differences: Sequence[str]) -> None:
        self.differences = list(differences)
        super().__init__("\n  ".join((f"{shown} is not what the migrations make:", *differences)))


class LogError(TowpathError):
    """The log did not do what was asked."""


class LogUnavailable(LogError):
    """The broker or the file is away, locked, full or restarting. Nothing was written; try the same call again."""


class PartlyAppended(LogError):
    """A batch outside a transaction was cut off. `appended` are written, `unknown` perhaps, the others not.

    The numbers are places in the batch. Where a doubled record would do harm, append in a transaction.
    """

    def __init__(self, appended: Iterable[int], unknown: Iterable[int], count: int, cause: object) -> None:
        self.appended = sorted(appended)
        self.unknown = sorted(unknown)
        self.count = count
        rest = count - len(self.appended) - len(self.unknown)
        super().__init__(
            f"{len(self.appended)} of {count} records were appended, {len(self.unknown)} perhaps, {rest} not: {cause}"
        )


class TransactionUnknown(LogError):
    """The connection broke while committing: all of the transaction was written or nothing, and nobody can say which.

    Open a producer of the same name and look at the positions that the transaction should have moved.
    """


class ProducerFenced(LogError):
    """A newer producer of the same name has taken over, or its transaction was open for too long. It must stop.

    Nothing was written, unless the commit itself was under way: then the positions tell.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"producer {name!r} was fenced: a newer one of the same name has taken over, or its transaction was open "
            "for longer than log.transaction_timeout_s; this one must stop"
        )


class TopicReplaced(LogError):
    """The topic was deleted since it was first read, and perhaps made again under the same name.

    Its old offsets mean nothing any more. Start again from chosen positions, with a new checkpoint.
    """

    def __init__(self, name: str, id: str | None, found: str | None) -> None:
        self.name = name
        self.id = id
        self.found = found
        which = f"topic {name!r} with the id {id}" if id else f"topic {name!r}"
        now = f"deleted and made again (its id is {found} now)" if found else "deleted"
        super().__init__(f"{which} was {now} while it was being read; start again, with a new checkpoint if any")


class TopicDeleted(TopicReplaced):
    """The topic was deleted while Spark was reading it, and there is no new one of that name.

    A class of its own, because only the class of an error is certain to come through Spark: the rest is text.
    """

    def __init__(self, name: str, id: str | None) -> None:
        super().__init__(name, id, None)
