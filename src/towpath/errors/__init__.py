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

from towpath.errors.access import (
    BadBlock,
    ForeignForm,
    IllegalBlockMove,
    KeyEnded,
    LastAdmin,
    LinkUsed,
    NotAllowed,
    NotLoggedIn,
    RequestReused,
    RequestRunning,
    ShownOnce,
    TooManyFailures,
    UnknownBlock,
    UnknownKey,
    UnknownUser,
    UnknownView,
    UserExists,
)
from towpath.errors.base import (
    BadName,
    BadPayload,
    BadSettings,
    BadValue,
    NotDelivered,
    NotInstalled,
    NotWhileInUse,
    ProcessDead,
    Refused,
    TooFast,
    TowpathError,
    UnknownCleaning,
    UnknownState,
    UnknownTarget,
)
from towpath.errors.control import (
    BadActor,
    BadState,
    CannotLaunch,
    DataSetInUse,
    EngineRefused,
    IllegalComplaintMove,
    IllegalDataSetMove,
    IllegalDutyMove,
    LauncherAway,
    LauncherError,
    NotAsleep,
    NotCoordinator,
    NotFailed,
    NotRunning,
    RecordUnknown,
    ScheduleExists,
    StillRunning,
    UnknownActor,
    UnknownComplaint,
    UnknownDataSet,
    UnknownDuty,
    UnknownFile,
    UnknownLaunch,
    UnknownSchedule,
)
from towpath.errors.desk import (
    BadEdit,
    BadExpression,
    BadPolicy,
    CannotRehearse,
    CountedAlready,
    FieldsMasked,
    IllegalCaseMove,
    IllegalGroupMove,
    IllegalJobMove,
    IllegalRuleMove,
    LaneLost,
    NeedsAnother,
    StaleEdit,
    UnknownCase,
    UnknownGroup,
    UnknownJob,
    UnknownLane,
    UnknownPolicy,
    UnknownRehearsal,
    UnknownRule,
)
from towpath.errors.flow import (
    BadFlow,
    FetchFailed,
    FlowError,
    FlowHalted,
    IllegalFlowMove,
    IllegalWish,
    NeedsPerson,
    NotTheOnlyOne,
    ServerFailed,
    SinkError,
    SparkFailed,
    UnknownFlow,
)
from towpath.errors.gateway import (
    BadChunk,
    BadCursor,
    BadStateFile,
    ChunkGap,
    ChunkTooLarge,
    ClientError,
    GatewayAway,
    GatewayRefused,
    IllegalUploadMove,
    LineTooLong,
    NotYet,
    ResultsGone,
    SenderReplaced,
    ServerAway,
    ServerRefused,
    SessionReplaced,
    SourceChanged,
    SumDiffers,
    UnknownQuery,
    UnknownSender,
    UnknownStream,
    UnknownUpload,
    UploadExists,
    UploadTooLarge,
)
from towpath.errors.storage import (
    AnswerTimeout,
    BadRecord,
    ChangedMeanwhile,
    ClaimLost,
    CommitUnknown,
    DatabaseError,
    DatabaseUnavailable,
    DuplicateMessage,
    IllegalMove,
    LogError,
    LogUnavailable,
    NoAnswer,
    NoReplyExpected,
    OffsetOutOfRange,
    PartlyAppended,
    PartlySent,
    ProducerFenced,
    RequestDied,
    SchemaDiffers,
    SchemaError,
    SchemaTooNew,
    SchemaTooOld,
    TopicDeleted,
    TopicExists,
    TopicReplaced,
    TransactionUnknown,
    UnknownInbox,
    UnknownMessage,
    UnknownPartition,
    UnknownTopic,
    WriterReplaced,
)

__all__ = [
    "AnswerTimeout",
    "BadActor",
    "BadBlock",
    "BadChunk",
    "BadCursor",
    "BadEdit",
    "BadExpression",
    "BadFlow",
    "BadName",
    "BadPayload",
    "BadPolicy",
    "BadRecord",
    "BadSettings",
    "BadState",
    "BadStateFile",
    "BadValue",
    "CannotLaunch",
    "CannotRehearse",
    "ChangedMeanwhile",
    "ChunkGap",
    "ChunkTooLarge",
    "ClaimLost",
    "ClientError",
    "CommitUnknown",
    "CountedAlready",
    "DataSetInUse",
    "DatabaseError",
    "DatabaseUnavailable",
    "DuplicateMessage",
    "EngineRefused",
    "FetchFailed",
    "FieldsMasked",
    "FlowError",
    "FlowHalted",
    "ForeignForm",
    "GatewayAway",
    "GatewayRefused",
    "IllegalBlockMove",
    "IllegalCaseMove",
    "IllegalComplaintMove",
    "IllegalDataSetMove",
    "IllegalDutyMove",
    "IllegalFlowMove",
    "IllegalGroupMove",
    "IllegalJobMove",
    "IllegalMove",
    "IllegalRuleMove",
    "IllegalUploadMove",
    "IllegalWish",
    "KeyEnded",
    "LaneLost",
    "LastAdmin",
    "LauncherAway",
    "LauncherError",
    "LineTooLong",
    "LinkUsed",
    "LogError",
    "LogUnavailable",
    "NeedsAnother",
    "NeedsPerson",
    "NoAnswer",
    "NoReplyExpected",
    "NotAllowed",
    "NotAsleep",
    "NotCoordinator",
    "NotDelivered",
    "NotFailed",
    "NotInstalled",
    "NotLoggedIn",
    "NotRunning",
    "NotTheOnlyOne",
    "NotWhileInUse",
    "NotYet",
    "OffsetOutOfRange",
    "PartlyAppended",
    "PartlySent",
    "ProcessDead",
    "ProducerFenced",
    "RecordUnknown",
    "Refused",
    "RequestDied",
    "RequestReused",
    "RequestRunning",
    "ResultsGone",
    "ScheduleExists",
    "SchemaDiffers",
    "SchemaError",
    "SchemaTooNew",
    "SchemaTooOld",
    "SenderReplaced",
    "ServerAway",
    "ServerFailed",
    "ServerRefused",
    "SessionReplaced",
    "ShownOnce",
    "SinkError",
    "SourceChanged",
    "SparkFailed",
    "StaleEdit",
    "StillRunning",
    "SumDiffers",
    "TooFast",
    "TooManyFailures",
    "TopicDeleted",
    "TopicExists",
    "TopicReplaced",
    "TowpathError",
    "TransactionUnknown",
    "UnknownActor",
    "UnknownBlock",
    "UnknownCase",
    "UnknownCleaning",
    "UnknownComplaint",
    "UnknownDataSet",
    "UnknownDuty",
    "UnknownFile",
    "UnknownFlow",
    "UnknownGroup",
    "UnknownInbox",
    "UnknownJob",
    "UnknownKey",
    "UnknownLane",
    "UnknownLaunch",
    "UnknownMessage",
    "UnknownPartition",
    "UnknownPolicy",
    "UnknownQuery",
    "UnknownRehearsal",
    "UnknownRule",
    "UnknownSchedule",
    "UnknownSender",
    "UnknownState",
    "UnknownStream",
    "UnknownTarget",
    "UnknownTopic",
    "UnknownUpload",
    "UnknownUser",
    "UnknownView",
    "UploadExists",
    "UploadTooLarge",
    "UserExists",
    "WriterReplaced",
]
