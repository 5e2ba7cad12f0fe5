"""Every error that Towpath raises on purpose, in one tree.

TowpathError
├── BadSettings            a settings file, variable or flag holds something that cannot be used
├── NotInstalled           a program or package that this needs is not on the machine
├── Refused                the caller asked for something that is not allowed; nothing was written
│   ├── BadPayload         not JSON, too large, or holds NUL or unpaired surrogates
│   ├── BadName            an empty or unusable inbox, function or header name
│   ├── BadValue           a number or option outside what is allowed
│   ├── UnknownInbox       nobody has registered that inbox
│   ├── UnknownState       not one of the states
│   ├── UnknownMessage     no message has that id
│   ├── DuplicateMessage   a message with that id was sent before
│   ├── IllegalMove        the message is not in a state that this move starts from
│   ├── ChangedMeanwhile   somebody else changed the message since it was read
│   ├── ClaimLost          the claim was taken away, or was never this process's
│   ├── NoReplyExpected    an answer to a message that asked for none
│   ├── BadRecord          a key, value, header or time that a topic cannot hold
│   ├── UnknownTopic       there is no topic of that name
│   ├── UnknownPartition   the topic has no such partition
│   ├── TopicExists        there is a topic of that name already
│   ├── OffsetOutOfRange   below the start or beyond the end of a partition
│   ├── BadFlow            a flow is declared in a way that cannot work
│   ├── UnknownFlow        no flow of that name has run here
│   ├── BadActor           the class of an actor is declared in a way that cannot work
│   ├── BadState           a state that an actor does not have, or whose fields do not fit
│   ├── UnknownActor       no actor, or no instance of it, has that name here
│   ├── NotRunning         the instance of an actor does not run, so there is nothing to abort
│   ├── NotAsleep          the instance of an actor does not sleep, so there is nothing to wake
│   ├── NotFailed          the instance of an actor has not failed, so there is no state to start it again from
│   ├── UnknownDataSet     no data set has that id
│   ├── UnknownFile        a data set has no such file
│   ├── IllegalDataSetMove the data set is not in a state that this move starts from
│   ├── DataSetInUse       something is being made from the data set
│   ├── BadBlock           a block rule that could match nothing or everything, or without an end
│   ├── UnknownBlock       no block rule has that number
│   ├── IllegalBlockMove   the block rule does not count any more
│   ├── UnknownComplaint   no complaint has that number
│   ├── IllegalComplaintMove the complaint is not in a state that this move starts from
│   ├── RecordUnknown      the record behind a complaint is not known, or is not in the log any more
│   ├── UnknownCleaning    there is nothing of that name to clean
│   ├── NotWhileInUse      this cannot be done while other processes are at work
│   ├── UnknownUser        there is no user of that name
│   ├── UserExists         there is a user of that name already
│   ├── LastAdmin          nobody would be left who may change access
│   ├── UnknownKey         no API key has that id or beginning
│   ├── KeyEnded           the API key was revoked before
│   ├── LinkUsed           a link for choosing a password was used, or is too old
│   ├── UnknownView        there is no saved view of that name
│   ├── ForeignForm        a form that is not of this session
│   ├── NotLoggedIn        no key or password, or one that does not count
│   │   └── TooManyFailures    log-ins have failed too often; wait
│   ├── NotAllowed         the role or the key does not allow this
│   ├── RequestReused      an idempotency key was used before for something else
│   ├── RequestRunning     the same request is being worked on
│   ├── ShownOnce          a secret was shown once, and cannot be shown again
│   ├── UnknownTarget      notifications have no such target
│   ├── UnknownSchedule    there is no schedule of that name
│   ├── ScheduleExists     there is a schedule of that name already
│   ├── UnknownCase        no case has that id, number or beginning of an id, or several have it
│   ├── IllegalCaseMove    the case is not in a state that this move starts from
│   ├── UnknownGroup       no group of cases has that number
│   ├── IllegalGroupMove   the group is not in a state that this move starts from
│   ├── UnknownJob         there is no bulk job of that id
│   ├── IllegalJobMove     the bulk job is not in a state that this move starts from
│   ├── BadEdit            a changed body is not JSON, or does not fit what the flow takes
│   ├── StaleEdit          somebody else changed the case since it was read
│   ├── NeedsAnother       this takes a second person, and it is the same one
│   ├── FieldsMasked       the role may not see all fields, so it may not do this
│   ├── BadPolicy          what is to be done about errors is said in a way that cannot work
│   │   └── BadExpression      the expression of a policy cannot be read; with the place in it
│   ├── UnknownPolicy      the flow has no such rule, or no such version of its rules
│   ├── UnknownRule        no rule of learned corrections has that number
│   ├── IllegalRuleMove    the rule is not in a state that this move starts from
│   ├── CountedAlready     somebody else has counted these records at the same time
│   ├── CannotRehearse     the records of these cases cannot be tried without side effects
│   ├── UnknownRehearsal   nobody has asked for such a rehearsal
│   ├── UnknownLane        the flow has no lane of that number
│   ├── LaneLost           the lane was taken over by another process
│   ├── UnknownLaunch      the launcher keeps no launch of that handle
│   ├── StillRunning       the launch runs, so what is kept of it cannot be deleted
│   ├── UnknownDuty        nothing that has to run has that name
│   ├── IllegalDutyMove    the duty is not in a state that this move starts from
│   ├── UnknownStream      no stream of that name, or no such input of it, is in the settings
│   ├── UnknownUpload      no upload has that id, or it is somebody else's
│   ├── UnknownSender      the upload has no sender of that name
│   ├── UploadExists       an upload of that id was opened before, and is another one
│   ├── IllegalUploadMove  the upload is not in a state that this move starts from
│   ├── SessionReplaced    the sender has connected again; the older connection counts no more
│   ├── ChunkGap           bytes are missing before the chunk
│   ├── ChunkTooLarge      the chunk is larger than a chunk may be
│   ├── BadChunk           the chunk is no whole gzip
│   ├── LineTooLong        a line is longer than a line may be; its sender can skip it
│   ├── UploadTooLarge     the upload has more bytes or lines than one may have
│   ├── SumDiffers         what was acknowledged is not what the sender has
│   ├── UnknownQuery       the upload has no result of that name
│   ├── BadCursor          not a cursor of this result, or one that was changed
│   ├── ResultsGone        the upload has ended, and its results were removed
│   └── IllegalWish        the flow is not in a state in which this can be asked of it
├── NoAnswer               a request did not get its answer
│   ├── AnswerTimeout      not yet: the request is still under way and may be waited for again
│   └── RequestDied        never: the request is DEAD or gone
├── DatabaseError          the database did not do what was asked
│   ├── DatabaseUnavailable    away, locked, full or restarting; nothing was written
│   ├── PartlySent             a batch was cut off between two of its commits; says which were written
│   ├── CommitUnknown          the connection broke during commit; it may or may not have been written
│   ├── WriterReplaced         a later start of the stage, or a later batch, writes to this output
│   └── SchemaError            tables and code do not fit
│       ├── SchemaTooNew       a newer Towpath has upgraded this database
│       ├── SchemaTooOld       the database needs `towpath schema upgrade`
│       └── SchemaDiffers      tables are not what the migrations make
├── LogError               the log did not do what was asked
│   ├── LogUnavailable         broker or file is away, locked or full; nothing was written
│   ├── PartlyAppended         a batch was cut off; says which records were written, and which perhaps
│   ├── TransactionUnknown     the connection broke during commit; it was written whole or not at all
│   ├── ProducerFenced         a newer producer of the same name has taken over
│   └── TopicReplaced          the topic was deleted, perhaps made again; old offsets mean nothing now
│       └── TopicDeleted       it was deleted and not made again, as a Spark source says it
├── FlowError              a flow cannot go on
│   ├── SinkError              a sink took nothing of a request; with the code
│   │   └── NeedsPerson        a sink refuses every single record: to wait would not help
│   ├── IllegalFlowMove        a stage or a batch cannot go from its state to that one
│   ├── FlowHalted             a stage needs a person; the text says why
│   └── NotTheOnlyOne          another living process runs this stage
├── LauncherError          a launcher did not do what was asked
│   ├── CannotLaunch           what is to be started cannot be started as it is told
│   └── LauncherAway           the launcher does not answer, or not in time; nothing is known
│       └── EngineRefused      the Docker Engine answers with an error that nobody has expected
├── ClientError            a client of a server cannot go on
│   ├── GatewayAway            the gateway did not answer for longer than was allowed; the same command goes on
│   ├── GatewayRefused         the gateway refuses a request; with its status and code
│   ├── SenderReplaced         another client sends as this sender now
│   ├── ServerAway             the server of `--remote` did not answer
│   ├── ServerRefused          the server of `--remote` refuses a command; with its status and code
│   ├── SourceChanged          a file is not what it was when its upload began
│   └── BadStateFile           a client's state file cannot be used, or is in use
├── TooFast                a key asks or sends more than it may; wait
├── NotYet                 a chunk cannot be taken now; the same one can be sent again a little later
├── NotDelivered           a webhook or a mail server did not take a notification
├── SparkFailed            Spark did not start, or not as it is needed
├── FetchFailed            a file could not be fetched, or is not what was expected
├── ServerFailed           a local server could not be set up, started or stopped
├── NotCoordinator         the term under which this was to be done is over, or is another's
└── ProcessDead            this process was declared dead, or could not renew its lease in time
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


class TowpathError(Exception):
    """Base of every error that Towpath raises on purpose. Catch this to catch them all."""


class BadSettings(TowpathError):
    """A settings file, variable or flag holds something that cannot be used. The text names the place and the key."""


class NotInstalled(TowpathError):
    """A program or package is missing on this machine. The text names it and the command that installs it."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what} is not installed: {remedy}")
        self.what = what
        self.remedy = remedy


class Refused(TowpathError):
    """The request is not allowed as it stands. Nothing was written; mend the call."""


class BadPayload(Refused):
    """The payload or headers cannot be stored: not JSON, too large, or holding NUL or unpaired surrogates."""


class BadName(Refused):
    """An inbox, function or header name is empty, too long or has characters that are not allowed."""


class BadValue(Refused):
    """A number or an option lies outside what is allowed. The text says what is."""


class UnknownInbox(Refused):
    """Nobody has registered that inbox. Open it once (`queue.inbox(name)`), or mend the name."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.known = sorted(known)
        shown = ", ".join(self.known[:10]) or "none yet"
        more = f" and {len(self.known) - 10} more" if len(self.known) > 10 else ""
        super().__init__(f"no inbox is named {name!r}; known inboxes: {shown}{more}. A reader makes one by opening it.")


class UnknownState(Refused):
    """That is not one of the message states. The text lists them."""

    def __init__(self, state: str, allowed: Iterable[str]) -> None:
        self.state = state
        self.allowed = tuple(allowed)
        super().__init__(f"{state!r} is not a message state; allowed: {', '.join(self.allowed)}")


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


class BadFlow(Refused):
    """A flow is declared in a way that cannot work: an unknown input, a name used twice. The text says which."""


class UnknownFlow(Refused):
    """No flow of that name has run against this database. `towpath flow list` shows those that have."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.known = sorted(known)
        super().__init__(f"no flow is named {name!r}; those that have run here: {', '.join(self.known) or 'none'}")


class BadActor(Refused):
    """The class of an actor is declared in a way that cannot work. The text says what to write."""


class BadState(Refused):
    """A state that the actor does not have, or whose fields do not fit. The text says which, and what is wrong."""


class UnknownActor(Refused):
    """No actor or no instance has that name. `towpath actor list` shows what there is."""


class BadBlock(Refused):
    """A block rule that could match nothing or everything, or that has no end. The text says what to write."""


class UnknownBlock(Refused):
    """No block rule has that number. `towpath block list` shows those there are."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(f"there is no block rule {number}; `towpath block list` shows those there are")


class IllegalBlockMove(Refused):
    """The block rule does not count any more: its time is over, or somebody has withdrawn it."""

    def __init__(self, number: int, state: str, move: str, allowed: Iterable[str]) -> None:
        self.number = number
        self.state = state
        self.move = move
        self.allowed = tuple(allowed)
        super().__init__(f"block rule {number} is {state}: {move} is allowed only from {' or '.join(self.allowed)}")


class UnknownComplaint(Refused):
    """No complaint has that number. `towpath complaint list` shows those there are."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(f"there is no complaint {number}; `towpath complaint list` shows those there are")


class IllegalComplaintMove(Refused):
    """The complaint is not in a state from which this is allowed. Look at it again: someone was faster."""

    def __init__(self, number: int, state: str, move: str, allowed: Iterable[str]) -> None:
        self.number = number
        self.state = state
        self.move = move
        self.allowed = tuple(allowed)
        super().__init__(f"complaint {number} is {state}: {move} is allowed only from {' or '.join(self.allowed)}")


class RecordUnknown(Refused):
    """The record behind a complaint is not known, or is not in the log any more. Say which one it is, or dismiss it."""


class UnknownCleaning(Refused):
    """There is nothing of that name to clean. `towpath maintenance list` shows what there is."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.known = tuple(known)
        super().__init__(f"there is nothing called {name!r} to clean; there are: {', '.join(self.known)}")


class NotWhileInUse(Refused):
    """This cannot be done while other processes are at work. Stop them, or do it all the same if you know better."""


class UnknownUser(Refused):
    """There is no user of that name. `towpath user list` shows those there are."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"there is no user {name!r}; `towpath user list` shows those there are")


class UserExists(Refused):
    """There is a user of that name already, perhaps a disabled one. Choose another name, or enable that one."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"there is a user {name!r} already; choose another name, or enable that one")


class LastAdmin(Refused):
    """Nobody would be left who may change access. Make another user an admin first."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"{name!r} is the last admin who is enabled; make another one first")


class UnknownKey(Refused):
    """No API key has that id or begins so. `towpath key list` shows those there are."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(f"no key has the id or begins with {text!r}; `towpath key list` shows those there are")


class KeyEnded(Refused):
    """The API key was revoked before. There is nothing left to do."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        super().__init__(f"key {prefix} was revoked before")


class LinkUsed(Refused):
    """A link for choosing a password was used before, or its time is over. An admin makes another."""

    def __init__(self) -> None:
        super().__init__("this link was used before, or its time is over; `towpath user link NAME` makes another")


class UnknownView(Refused):
    """Nobody has saved a view of that name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"there is no saved view {name!r}")


class ForeignForm(Refused):
    """A change was asked for with a session, but not by a form of it. Load the page again, and send it from there."""

    def __init__(self) -> None:
        super().__init__("this form is not of your session, or from before you logged in; load the page again")


class NotLoggedIn(Refused):
    """No key or password came with the request, or one that does not count: unknown, revoked, at its end, disabled.

    It does not say which, so that nobody learns from it who is there.
    """


class TooManyFailures(NotLoggedIn):
    """Log-ins under this name or from this address have failed too often. Wait; `after_s` says how long."""

    def __init__(self, after_s: float) -> None:
        self.after_s = after_s
        super().__init__(f"log-ins have failed too often; try again in {after_s:.0f} s")


class NotAllowed(Refused):
    """Your role, or the key that you use, does not allow this. The text says what is needed."""


class RequestReused(Refused):
    """The idempotency key was used before for another request. Use a new one for each thing that is to be done."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"the idempotency key {key!r} was used before for another request; use a new one")


class RequestRunning(Refused):
    """The same request is being worked on. Ask again a little later, with the same idempotency key."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"the request with the idempotency key {key!r} is being worked on; ask again a little later")


class ShownOnce(Refused):
    """What was asked for was made, and its secret shown once. It is kept nowhere: make another."""


class UnknownTarget(Refused):
    """Notifications have no target of that name. `towpath notify list` shows those in the settings."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.known = sorted(known)
        super().__init__(f"no target is named {name!r}; in the settings: {', '.join(self.known) or 'none'}")


class UnknownSchedule(Refused):
    """There is no schedule of that name. `towpath actor schedule list` shows those there are."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"there is no schedule {name!r}; `towpath actor schedule list` shows those there are")


class ScheduleExists(Refused):
    """There is a schedule of that name already. Change or remove it, or choose another name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"there is a schedule {name!r} already; change it, or choose another name")


class NotRunning(Refused):
    """The instance is at rest: there is nothing to abort."""


class NotAsleep(Refused):
    """The instance does not sleep: it runs, waits for answers or is at rest. `towpath actor show` says which."""


class NotFailed(Refused):
    """The instance has not failed, or the state in which it did is not kept any more. Start it with one you name."""


class BadPolicy(Refused):
    """What a flow or a person says about errors cannot work. The text names the rule and what to write instead."""


class BadExpression(BadPolicy):
    """The expression of a policy cannot be read. `at` is the place in it, counted from 0, where it stops being one."""

    def __init__(self, message: str, text: str, at: int) -> None:
        self.text = text
        self.at = at
        shown = f"{text[max(0, at - 20) : at]}»{text[at : at + 20]}"
        super().__init__(f"{message} at character {at + 1}: {shown}")


class UnknownPolicy(Refused):
    """The flow has no such rule, or no such version of its rules. `towpath desk policy list` shows what there is."""


class UnknownLane(Refused):
    """The flow has no lane of that number. `towpath lane list` shows those there are."""

    def __init__(self, flow: str, partition: int) -> None:
        self.flow = flow
        self.partition = partition
        super().__init__(f"flow {flow!r} has no lane {partition}; `towpath lane list` shows those there are")


class LaneLost(Refused):
    """The lane belongs to another process by now. Nothing was written; its new owner goes on with it."""

    def __init__(self, lane: str, owner: str) -> None:
        self.lane = lane
        self.owner = owner
        super().__init__(f"lane {lane} is not {owner}'s any more, or has gone on without it")


class UnknownDataSet(Refused):
    """No data set has that id. `data_sets.list()` shows those there are."""

    def __init__(self, data_set_id: str) -> None:
        self.data_set_id = data_set_id
        super().__init__(f"no data set has the id {data_set_id!r}")


class UnknownFile(Refused):
    """The data set has no plain file of that path. Links in its directory are not followed."""

    def __init__(self, data_set_id: str, path: str) -> None:
        self.data_set_id = data_set_id
        self.path = path
        super().__init__(f"data set {data_set_id} has no file {path!r}")


class IllegalDataSetMove(Refused):
    """The data set is not in a state from which this is allowed. Look at it again: someone was faster."""

    def __init__(self, data_set_id: str, state: str, move: str, allowed: Iterable[str]) -> None:
        self.data_set_id = data_set_id
        self.state = state
        self.move = move
        self.allowed = tuple(allowed)
        super().__init__(f"data set {data_set_id} is {state}: {move} is allowed only from {' or '.join(self.allowed)}")


class DataSetInUse(Refused):
    """Something is being made from the data set. Wait until that is ready, or delete that first."""

    def __init__(self, data_set_id: str, users: Iterable[str]) -> None:
        self.data_set_id = data_set_id
        self.users = tuple(users)
        super().__init__(f"data set {data_set_id} is in use: {', '.join(self.users)} is being made from it")


class UnknownJob(Refused):
    """There is no bulk job of that id, or several begin so. `towpath desk job list` shows those there are."""


class IllegalJobMove(Refused):
    """The bulk job is not in a state from which this is allowed. Look at it again: someone was faster."""

    def __init__(
        self, job_id: str, state: str, move: str, allowed: Iterable[str], *, number: int | None = None
    ) -> None:
        self.job_id = job_id
        self.state = state
        self.move = move
        self.allowed = tuple(sorted(allowed))
        only = " or ".join(self.allowed) or "none"
        super().__init__(f"job {number or job_id} is {state}: {move} is possible only from {only}")


class BadEdit(Refused):
    """A changed body cannot go out: it is not JSON, or it does not fit what the flow takes. The text says where."""


class StaleEdit(Refused):
    """Somebody else changed the case since you read it. Look at it again before you change it."""

    def __init__(self, case_id: str, what: str, *, number: int | None = None) -> None:
        self.case_id = case_id
        self.what = what
        super().__init__(f"case {number or case_id} was changed since you read it: {what}; look at it again")


class NeedsAnother(Refused):
    """An edit takes a second person here (`desk.second_person`), and that is not who has made it."""


class FieldsMasked(Refused):
    """Some fields of this flow are masked for your role, so that you may not do this. An admin may."""


class UnknownCase(Refused):
    """No case has that id or number, or several have ids that begin so. `towpath desk list` shows them."""

    def __init__(self, text: str, *, is_ambiguous: bool = False) -> None:
        self.text = text
        self.is_ambiguous = is_ambiguous
        what = "several cases have ids that begin with" if is_ambiguous else "no case has the id or number"
        rest = "write more of it" if is_ambiguous else "never made, or deleted after its retention time"
        super().__init__(f"{what} {text[:60]!r} ({rest})")


class IllegalCaseMove(Refused):
    """The case is not in a state from which this is allowed. Look at it again: someone was faster."""

    def __init__(
        self,
        case_id: str,
        state: str,
        target: str,
        allowed: Iterable[str],
        *,
        number: int | None = None,
        hint: str = "",
    ) -> None:
        self.case_id = case_id
        self.state = state
        self.target = target
        self.allowed = tuple(allowed)
        only = " or ".join(self.allowed) or "no state"
        rest = f"; {hint}" if hint else ""
        super().__init__(f"case {number or case_id} is {state} and cannot become {target}: only from {only}{rest}")


class UnknownRule(Refused):
    """No rule of learned corrections has that number. `towpath desk correct rules` shows those there are."""

    def __init__(self, id: int) -> None:
        self.id = id
        super().__init__(f"there is no rule {id}; `towpath desk correct rules` shows those there are")


class IllegalRuleMove(Refused):
    """The rule is not in a state from which this is allowed. Look at it again: someone was faster."""

    def __init__(self, id: int, state: str, target: str, allowed: Iterable[str]) -> None:
        self.id = id
        self.state = state
        self.target = target
        self.allowed = tuple(allowed)
        super().__init__(f"rule {id} is {state} and cannot become {target}: only from {' or '.join(self.allowed)}")


class CountedAlready(Refused):
    """Somebody else has counted these records at the same time. Nothing was counted twice; learn again later."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"{what} was counted by somebody else at the same time; nothing is counted twice")


class CannotRehearse(Refused):
    """The records of these cases cannot be tried without side effects. The text says which step stands in the way."""


class UnknownRehearsal(Refused):
    """Nobody has asked for such a rehearsal, or it was deleted after the retention time of messages."""

    def __init__(self, id: str) -> None:
        self.id = id
        super().__init__(f"there is no rehearsal {id!r} (never asked for, or deleted after its retention time)")


class UnknownGroup(Refused):
    """No group of cases has that number. `towpath desk groups` shows those there are."""

    def __init__(self, group_id: int) -> None:
        self.group_id = group_id
        super().__init__(f"there is no group {group_id}; `towpath desk groups` shows those there are")


class IllegalGroupMove(Refused):
    """The group is not in a state from which this is allowed. Look at it again: someone was faster."""

    def __init__(self, group_id: int, state: str, target: str, allowed: Iterable[str]) -> None:
        self.group_id = group_id
        self.state = state
        self.target = target
        self.allowed = tuple(allowed)
        shown = " or ".join(self.allowed) or "no state"
        super().__init__(f"group {group_id} is {state} and cannot become {target}: only from {shown}")


class IllegalWish(Refused):
    """The stage is not in a state in which this can be asked of it. The text names the state and what is possible."""


class FlowError(TowpathError):
    """A flow cannot go on as it is."""


class SinkError(FlowError):
    """A sink took nothing of a request: it is away, broken or refuses everything. `code` is the error code.

    The batch is tried again after a while, without end.
    """

    def __init__(self, code: int, target: str, message: str) -> None:
        self.code = int(code)
        self.target = target
        self.message = message
        super().__init__(self.code, target, message)  # what it is made of again in another process

    def __str__(self) -> str:
        return f"{self.target}: {self.message}"


class NeedsPerson(SinkError):
    """A sink refuses every single record, or cannot hold any: to wait would not help. The stage halts."""


class IllegalFlowMove(FlowError):
    """A stage or a batch cannot go from its state to that one. A fault in the program, or someone was faster."""

    def __init__(self, what: str, state: str, target: str, allowed: Iterable[str]) -> None:
        self.what = what
        self.state = state
        self.target = target
        self.allowed = tuple(sorted(allowed))
        super().__init__(f"{what} is {state} and cannot become {target}: only {', '.join(self.allowed) or 'nothing'}")


class FlowHalted(FlowError):
    """A stage cannot go on without a person. The text says what happened and what to do."""


class NotTheOnlyOne(FlowError):
    """Another process that is alive runs this stage. Stop it first, or wait until its lease is over."""


class UnknownLaunch(Refused):
    """The launcher keeps no launch of that handle: it was never started on this host, or is forgotten."""


class StillRunning(Refused):
    """The launch runs, so that what is kept of it cannot be deleted. Stop it first."""


class LauncherError(TowpathError):
    """A launcher did not do what was asked."""


class CannotLaunch(LauncherError):
    """It cannot be started as it is told: no such program, directory or image, or a limit that is not allowed.

    Mend what the text names; to start it again as it is would not help. Nothing of it runs.
    """


class LauncherAway(LauncherError):
    """The launcher does not answer, or not in time. Nothing is known; the same call may be made again."""


class EngineRefused(LauncherAway):
    """The Docker Engine refused something, for a reason that nobody has expected; the text ends with its words."""

    def __init__(self, what: str, status: int, says: str) -> None:
        self.status = status
        self.says = says
        super().__init__(f"the Docker Engine answers {what} with {status}: {says}")


class ClientError(TowpathError):
    """A client of a server cannot go on. What was acknowledged is safe."""


class GatewayAway(ClientError):
    """The gateway did not answer, or only with "later", for longer than was allowed. The same command goes on."""


class GatewayRefused(ClientError):
    """The gateway refuses a request. The text is its own; `code` is for programs."""

    def __init__(self, status: int, code: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        self.status = status
        self.code = code
        self.message = message
        self.details = dict(details or {})
        super().__init__(f"the gateway refuses: {message}" + (f" ({code})" if code else ""))


class SenderReplaced(ClientError):
    """Another client has begun to send as this sender; the newest counts. End one of the two."""


class ServerAway(ClientError):
    """The server of `--remote` did not answer, or only with "later". The text says whether a change may have been made.

    See whether it runs (`towpath console`, `towpath api run`), and whether the address is right.
    """


class ServerRefused(ClientError):
    """The server of `--remote` refuses what a command asks for. The text is its own; `code` is for programs."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status = status
        self.code = code
        super().__init__(message)


class SourceChanged(ClientError):
    """A file is not what it was when its upload began, or what the server has is not what was sent.

    Bring the old file back, or begin a new upload.
    """


class BadStateFile(ClientError):
    """The state file of a client cannot be read or written, is of another kind, or another process uses it."""


class TooFast(TowpathError):
    """More was asked or sent with a key than it may. Nothing was taken; try again after `after_s`."""

    def __init__(self, why: str, after_s: float) -> None:
        self.after_s = after_s
        super().__init__(f"{why}; try again in {after_s:.1f} s")


class UnknownStream(Refused):
    """No stream of that name, or no such input of it, is in the settings (`gateway.streams`)."""

    def __init__(self, name: str, known: Iterable[str], what: str = "stream") -> None:
        self.name = name
        self.known = sorted(known)
        shown = ", ".join(self.known[:10]) or "none; name them in the settings under gateway.streams"
        super().__init__(f"there is no {what} {name!r}; there are: {shown}")


class UnknownUpload(Refused):
    """No upload has that id, or it is somebody else's. Only who opened an upload can go on with it."""

    def __init__(self, id: str) -> None:
        self.id = id
        super().__init__(f"there is no upload {id!r} of yours (never opened, or forgotten after its retention time)")


class UnknownSender(Refused):
    """The upload has no sender of that name. Senders are named when an upload is opened."""

    def __init__(self, upload: str, sender: str) -> None:
        self.upload = upload
        self.sender = sender
        super().__init__(f"upload {upload} has no sender {sender!r}; its senders were named when it was opened")


class UploadExists(Refused):
    """An upload of that id was opened before, by somebody else or in another way. Choose another id."""

    def __init__(self, id: str) -> None:
        self.id = id
        super().__init__(f"an upload with the id {id} was opened before, and is another one; choose another id")


class IllegalUploadMove(Refused):
    """The upload is not in a state from which this is allowed. Look at it again: it may have ended."""

    def __init__(self, id: str, state: str, move: str, allowed: Iterable[str]) -> None:
        self.id = id
        self.state = state
        self.move = move
        self.allowed = tuple(allowed)
        super().__init__(f"upload {id} is {state}: to {move} it is allowed only from {' or '.join(self.allowed)}")


class SessionReplaced(Refused):
    """The sender has connected again, here or elsewhere: the newest connection counts, and this one is an older one.

    End one of the two clients, or ask for a new session.
    """

    def __init__(self, upload: str, sender: str, session: int, newest: int) -> None:
        self.upload = upload
        self.sender = sender
        self.session = session
        self.newest = newest
        super().__init__(
            f"session {session} of sender {sender} is over: session {newest} is newer; ask for a new session to go on"
        )


class ChunkGap(Refused):
    """Bytes are missing between what was acknowledged and the chunk. Go on from `position`."""

    def __init__(self, offset: int, position: int) -> None:
        self.offset = offset
        self.position = position
        super().__init__(f"the chunk begins at {offset}, and only {position} bytes are there; go on from {position}")


class ChunkTooLarge(Refused):
    """The chunk, uncompressed, is larger than `gateway.chunk_bytes`. Send less at once."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(f"a chunk has {limit} bytes at most (gateway.chunk_bytes), uncompressed; send less at once")


class BadChunk(Refused):
    """The chunk was to be gzip, and is not, or not whole. Nothing of it was taken; send it again."""


class LineTooLong(Refused):
    """A line is longer than `gateway.line_bytes`. Its sender can skip it: it becomes a case, and the rest goes on."""

    def __init__(self, position: int, line: int, limit: int) -> None:
        self.position = position
        self.line = line
        self.limit = limit
        super().__init__(
            f"line {line}, at {position}, is longer than {limit} bytes (gateway.line_bytes); skip it to go on behind it"
        )


class UploadTooLarge(Refused):
    """The upload would have more bytes or lines than one may have (`gateway.upload_bytes`, `gateway.upload_lines`)."""

    def __init__(self, what: str, most: int) -> None:
        self.most = most
        super().__init__(f"an upload has {most} {what} at most (gateway.upload_{what}); send the rest as another one")


class SumDiffers(Refused):
    """What the sender says it has sent is not what was acknowledged. The upload does not close on it."""


class NotYet(TowpathError):
    """A chunk cannot be taken now. Nothing was written; the same one can be sent again after `retry_after_s`.

    `reason` is `after` (another input has to be through first), `behind` (the flow has too much to read) or `busy`
    (another process serves the sender, or another request of it is being worked on).
    """

    def __init__(self, reason: str, message: str, retry_after_s: float) -> None:
        self.reason = reason
        self.retry_after_s = retry_after_s
        super().__init__(message)


class NotDelivered(TowpathError):
    """A webhook or a mail server did not take a notification. It is tried again for a while, then the message is ERR.

    `is_final`: to try again would not help.
    """

    def __init__(self, message: str, *, is_final: bool = False) -> None:
        self.is_final = is_final
        super().__init__(message)


class SparkFailed(TowpathError):
    """Spark did not start, or runs in this process in another way than it is needed. The text says what to do."""


class FetchFailed(TowpathError):
    """A file could not be fetched from its registry, or is not the one that was expected. Nothing of it is kept."""


class ServerFailed(TowpathError):
    """A local server could not be set up, started or stopped. The text ends with the last lines of its log."""


class UnknownDuty(Refused):
    """Nothing that has to run has that name. `towpath status` shows what has."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.known = sorted(known)
        shown = ", ".join(self.known[:10]) or "none yet; `towpath up` makes them from the settings"
        more = f" and {len(self.known) - 10} more" if len(self.known) > 10 else ""
        super().__init__(f"nothing that has to run is named {name!r}; known: {shown}{more}")


class IllegalDutyMove(Refused):
    """The duty is not in a state from which this is allowed, or its launch is another by now. Look at it again."""

    def __init__(self, name: str, state: str, move: str, allowed: Iterable[str]) -> None:
        self.name = name
        self.state = state
        self.move = move
        self.allowed = tuple(allowed)
        super().__init__(f"duty {name} is {state}: {move} is allowed only from {' or '.join(self.allowed)}")


class UnknownQuery(Refused):
    """The upload has no result of that name. Its status tells which it has."""

    def __init__(self, upload: str, query: str, known: Iterable[str]) -> None:
        self.upload = upload
        self.query = query
        self.known = sorted(known)
        super().__init__(f"upload {upload} has no result {query!r}; it has {', '.join(self.known) or 'none'}")


class BadCursor(Refused):
    """The text is no cursor of this result. Use the one that came with the last page, or none to begin anew."""

    def __init__(self, cursor: str, why: str) -> None:
        self.cursor = cursor
        super().__init__(f"the cursor {cursor[:60]!r} cannot be used: {why}")


class ResultsGone(Refused):
    """The upload has ended: its results were acknowledged, or nobody came for them in time."""

    def __init__(self, upload: str, state: str) -> None:
        self.upload = upload
        self.state = state
        super().__init__(f"upload {upload} is {state}: its results were removed")


class NotCoordinator(TowpathError):
    """The term under which something was to be done is over, or is another's. Nothing was done; step down."""

    def __init__(self, term: int, holder: str) -> None:
        self.term = term
        self.holder = holder
        super().__init__(f"term {term} is not {holder}'s any more: nothing was done")


class ProcessDead(TowpathError):
    """This process was declared dead by another, or could not renew its lease in time. It must not go on working."""
