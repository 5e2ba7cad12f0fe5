"""Configuration: `towpath.toml`, then `TOWPATH_*` variables, then flags; each overrules the one before.

Every part has one frozen object, checked when it is made. A value that cannot be used raises `BadSettings` with the
place (file, variable or flag) and the key.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings.exceptions import SettingsError

from towpath.errors import BadSettings

FILE_NAME = "towpath.toml"
PREFIX = "TOWPATH_"
NESTED = "__"
# Read elsewhere, or before the settings.
NOT_SETTINGS = frozenset(
    {
        "TOWPATH_CONFIG",
        "TOWPATH_CRASH",
        "TOWPATH_KEY",
        "TOWPATH_LAUNCH",
        "TOWPATH_LAUNCH_SHOWN",
        "TOWPATH_REMOTE",
        "TOWPATH_SERVER",
    }
)

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_NEVER = BeforeValidator(lambda value: None if value == "never" else value)  # a file and a variable have no null
Age = Annotated[Seconds | None, _NEVER]
Most = Annotated[Annotated[int, Field(ge=1)] | None, _NEVER]
MostRate = Annotated[Seconds | None, _NEVER]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DatabaseSettings(_Part):
    """Where the control plane lives."""

    url: str = Field(
        "sqlite:///towpath.db",
        description="`sqlite:///path` (embedded) or `postgresql://user@host:port/database`.",
        pattern=r"^(sqlite:///.+|postgres(ql)?://.+)$",
    )
    synchronous: Literal["full", "normal"] = Field(
        "full",
        description="SQLite only. `full`: a finished commit survives a power cut. `normal`: it survives a crash of "
        "any process, but a power cut may take the last moments.",
    )
    db_schema: str = Field(
        "towpath",
        alias="schema",
        description="PostgreSQL only. The schema that holds Towpath's tables.",
        pattern=r"^[a-z_][a-z0-9_]{0,40}$",
    )
    auto_upgrade: bool = Field(
        True, description="Upgrade the tables at start. Off: an old schema is an error until `towpath schema upgrade`."
    )
    lock_timeout_s: Seconds = Field(
        10.0, description="How long a caller waits for a lock or a connection before `DatabaseUnavailable`."
    )


class ProcessSettings(_Part):
    """How soon the death of a process is noticed."""

    name: str = Field("towpath", description="What people see as this process's name.", pattern=r"^[\w.:@/-]{1,80}$")
    heartbeat_s: Seconds = Field(2.0, description="How often a process renews its lease.")
    lease_s: Seconds = Field(
        10.0, description="A process that has not renewed for this long is dead, and its claims are freed."
    )
    grace_s: Seconds = Field(
        30.0,
        description="How long a process that SIGTERM tells to stop may go on with what it has begun; then it leaves, "
        "and others go on with that.",
    )

    @model_validator(mode="after")
    def _beats_fit_in_lease(self) -> ProcessSettings:
        if self.lease_s < 2.999 * self.heartbeat_s:  # 3 × 0.2 is a little more than 0.6 in binary
            raise ValueError(
                f"lease_s ({self.lease_s:g}) must be at least three times heartbeat_s ({self.heartbeat_s:g}), "
                "or one late beat would kill a living process"
            )
        return self


class RetentionSettings(_Part):
    """How long finished messages and events are kept, in seconds, or `"never"`: they are never deleted."""

    ok_s: Age = Field(3 * 86400.0, description="Age at which OK messages are deleted.")
    dead_s: Age = Field(14 * 86400.0, description="Age at which DEAD messages are deleted.")
    err_s: Age = Field(None, description="Age at which ERR messages are deleted; kept by default.")
    event_s: Age = Field(90 * 86400.0, description="Age at which events are deleted.")
    process_s: Age = Field(86400.0, description="Age at which rows of ended processes are deleted.")


class QueueSettings(_Part):
    """The message queue."""

    max_payload_bytes: int = Field(
        1 << 20, ge=16, le=256 << 20, description="Largest payload of one message, and largest headers."
    )
    poll_s: Seconds = Field(
        1.0,
        description="How often an idle inbox looks by itself, in case a wake-up was lost. Wake-ups take milliseconds.",
    )
    caretaker_s: Seconds = Field(1.0, description="How often dead owners and expired messages are looked for.")
    janitor_s: Seconds = Field(300.0, description="How often messages past their retention time are deleted.")
    reply_ttl_s: Seconds = Field(3 * 86400.0, description="An answer that nobody fetches for this long is DEAD.")
    retention: RetentionSettings = RetentionSettings()


class ActorSettings(_Part):
    """Actors: durable state machines on the queue."""

    modules: list[str] = Field(
        [],
        description="Python modules or `.py` files whose actors `towpath actor run` runs, seen from the directory of "
        "the settings file.",
    )
    workers: int = Field(
        16, ge=1, le=256, description="How many states may run at once in one process, each in a thread."
    )
    grace_s: Seconds = Field(
        10.0, description="How long a process that is told to stop lets the states finish that run."
    )
    directory: str = Field(
        ".towpath/actors", description="What processes write that spawner actors run: one log an instance."
    )
    retention_s: Age = Field(
        14 * 86400.0,
        description="Age at which an instance that a call has made and that has ended is deleted, or `never`.",
    )
    failed_retention_s: Age = Field(
        None, description="The same for one that has failed; kept by default, until a person has looked at it."
    )


class CatalogSettings(_Part):
    """Data sets: what runs have made."""

    retention_s: Age = Field(
        90 * 86400.0,
        description="Age at which the row of a deleted data set is forgotten, or `never`. One that others were made "
        "from stays as long as theirs.",
    )
    janitor_s: Seconds = Field(
        300.0, description="How often deletions that were cut off are ended, and old rows are forgotten."
    )


class LogSettings(_Part):
    """Topics: where records are kept, and how."""

    url: str = Field(
        "embedded",
        description="`embedded` (tables in the SQLite database), `sqlite:///path` (a SQLite file of its own) or "
        "`kafka://host:port,host:port`.",
        pattern=r"^(embedded|sqlite:///.+|kafka://[^/,\s]+:\d+(,[^/,\s]+:\d+)*)$",
    )
    client: dict[str, str] = Field(
        {},
        repr=False,  # holds passwords
        description="Kafka only. Further properties of the client, such as `security.protocol` or `sasl.password`.",
    )
    namespace: str = Field(
        "towpath",
        description="Kafka only. Stands before the names of transactional producers, so that two Towpaths on one "
        "broker do not fence each other.",
        pattern=r"^[a-zA-Z0-9._-]{1,60}$",
    )
    partitions: int = Field(4, ge=1, le=10_000, description="Partitions of a new topic when nothing else is said.")
    retention_s: Age = Field(
        7 * 86400.0,
        description="Age at which records of a new topic are deleted when nothing else is said, or `never`.",
    )
    max_record_bytes: int = Field(
        4 << 20, ge=1024, le=64 << 20, description="Largest record that can be appended: key, value and headers."
    )
    timeout_s: Seconds = Field(
        60.0, description="How long a caller waits for the broker before `LogUnavailable` or `PartlyAppended`."
    )
    transaction_timeout_s: Seconds = Field(
        60.0,
        description="Kafka only. An open transaction of a dead producer is aborted after this time; until then it "
        "hides what was committed after it. A successor of the same name aborts it at once.",
    )
    janitor_s: Seconds = Field(300.0, description="SQLite only. How often records past their retention are deleted.")


class SparkSettings(_Part):
    """The Spark session."""

    master: str = Field(
        "local[*]",
        description="`local[n]`, `spark://host:port`, `yarn` or `k8s://…`, in client mode.",
        pattern=r"^(local(\[[^\]]+\])?|spark://.+|yarn|k8s://.+)$",
    )
    memory: str = Field("1g", description="Memory of the driver.", pattern=r"^[1-9]\d*[kmgKMG]$")
    executor_memory: str = Field("1g", description="Memory of an executor on a cluster.", pattern=r"^[1-9]\d*[kmgKMG]$")
    java_home: str = Field(
        "", description="Directory of Java 17 or 21; otherwise `JAVA_HOME`, then `java` on the path, then usual places."
    )
    ui: bool = Field(False, description="Serve Spark's own web pages, on the loopback interface.")
    log_level: Literal["debug", "info", "warn", "error", "off"] = Field(
        "error", description="Least severe level of Spark's own log that is shown."
    )
    conf: dict[str, str] = Field(
        {},
        repr=False,
        description="Further properties of Spark, such as `spark.jars.packages`; they overrule Towpath's own.",
    )


class FlowSettings(_Part):
    """How flows run. A flow file may overrule what is about its own records."""

    directory: str = Field(
        ".towpath/flows",
        description="Checkpoints and what a batch has decided. With executors on other hosts: a directory that the "
        "driver and all of them share.",
    )
    starting: Literal["earliest", "latest"] = Field(
        "earliest", description="Where a flow begins in a topic that it has never read."
    )
    max_record_bytes: int = Field(
        1 << 20, ge=16, le=64 << 20, description="A record with a larger value goes to the errors with code 4."
    )
    max_batch_records: int = Field(
        200_000, ge=1, description="Most records of one batch; what comes back after a crash is at most this much."
    )
    trigger_s: Seconds = Field(0.2, description="How often an idle stage looks for new records.")
    retry_least_s: Seconds = Field(0.2, description="First wait of a stage that tries again.")
    retry_most_s: Seconds = Field(60.0, description="Longest wait of a stage that tries again.")
    judge_share: float = Field(
        0.5,
        gt=0,
        le=1,
        description="Share of one cause among all records above which it is an outage, not bad records.",
    )
    judge_sample: int = Field(100, ge=1, description="Least number of records before an outage is declared.")
    judge_window_s: Seconds = Field(10.0, description="How far back records count for that.")
    search_records: int = Field(
        20, ge=0, description="Most bad records that are searched for one by one in a batch that fails as a whole."
    )
    search_s: Seconds = Field(60.0, description="Longest time for that search.")
    sample_s: Seconds = Field(1.0, description="How often position, lag and rate of a running stage are written down.")


class DeskSettings(_Part):
    """The error desk."""

    directory: str = Field(
        ".towpath/desk", description="Bodies too large for a row. Shared by all hosts that run or use the desk."
    )
    large_body_bytes: int = Field(
        256 << 10, ge=1024, le=16 << 20, description="A larger body is a file in that directory, not a row."
    )
    intake_s: Seconds = Field(0.5, description="How often the desk looks for new errors and outcomes.")
    retention_s: Age = Field(
        30 * 86400.0,
        description="Age at which settled cases are deleted, with their attempts and history, or `never`.",
    )
    ignored_retention_s: Age = Field(
        30 * 86400.0, description="Age at which cases that a rule has ignored are deleted, or `never`."
    )
    group_retention_s: Age = Field(
        365 * 86400.0,
        description="Age of the last error at which a group without cases is deleted, with its history, or `never`. "
        "The same error makes a new group then.",
    )
    touched_retention_s: Age = Field(
        365 * 86400.0,
        description="Age at which it is forgotten what rules of corrections have changed, and what operators have put "
        "where something was suggested, or `never`. What was forgotten cannot be listed when a rule is reverted.",
    )
    evidence_retention_s: Age = Field(
        365 * 86400.0,
        description="How long a count that speaks for a rule is kept when nothing confirms it any more, or `never`.",
    )
    janitor_s: Seconds = Field(300.0, description="How often what is past these times is deleted.")
    masked: dict[str, list[str]] = Field(
        {},
        description="By flow, or `*` for all: fields that not everybody may see, as paths such as `customer.email`; "
        "`$key` is the record's key, `$headers.name` a header.",
    )
    sees_masked: Literal["viewer", "operator", "admin"] = Field(
        "admin", description="The lowest role that sees these fields all the same. Who does not see them cannot edit."
    )
    code: dict[str, str] = Field(
        {},
        description="By a name of your own: where flows are that may be rehearsed over HTTP, as MODULE:FLOW or "
        "FILE.py:FLOW, seen from where `towpath desk run` was started.",
    )
    second_person: bool = Field(
        False, description="An edited body goes out only after another person has agreed to it."
    )
    lane_order: Literal["strict", "all-due"] = Field(
        "all-due",
        description="What a lane releases: `all-due`, all records that are due; `strict`, none before one that lies "
        "in front of it.",
    )
    lane_s: Seconds = Field(0.25, description="How often lanes look for what has become due.")
    relay_s: Seconds = Field(1.0, description="How often the relay looks by itself, in case a wake-up was lost.")
    grace_s: Seconds = Field(10.0, description="How long `towpath desk run`, told to stop, lets its parts finish.")


class StackSettings(_Part):
    """Servers on this machine for trying things out: `towpath stack`."""

    directory: str = Field(".towpath/stack", description="Where the servers keep data, logs and ports.")


class AccessSettings(_Part):
    """Users, API keys, and the record of what was done in whose name."""

    audit_retention_s: Age = Field(
        365 * 86400.0, description="Age at which audit rows are deleted, or `never`. Done by `towpath api run`."
    )
    request_retention_s: Seconds = Field(
        86400.0, description="How long the answer to a request with an idempotency key is kept."
    )
    janitor_s: Seconds = Field(300.0, description="How often what is past these times is deleted.")
    failures: int = Field(
        5, ge=1, le=1000, description="Log-ins that may fail in a row, by name and by address, before one has to wait."
    )
    failure_wait_s: Seconds = Field(
        2.0, description="The first such wait; each further failure doubles it, up to a quarter of an hour."
    )
    key_age_s: Age = Field(
        90 * 86400.0, description="How long an API key counts when nothing else is said, or `never`: without end."
    )
    session_s: Seconds = Field(
        12 * 3600.0, description="How long somebody stays logged in at the console after they have used it last."
    )
    link_s: Seconds = Field(86400.0, description="How long a link for choosing a password can be used.")
    block_retention_s: Age = Field(
        365 * 86400.0, description="Age at which block rules are deleted that do not count any more, or `never`."
    )


class ApiSettings(_Part):
    """The HTTP interface: `towpath api run`."""

    host: str = Field("127.0.0.1", description="The interface to listen on.", pattern=r"^[a-zA-Z0-9.:_-]+$")
    port: int = Field(8470, ge=0, le=65535, description="The port to listen on; 0 for a free one.")
    remote: bool = Field(
        False,
        description="Listen also on an interface that others can reach. Put TLS in front: keys travel with requests.",
    )
    hosts: list[str] = Field(
        [],
        description="Names under which it may be asked, besides those of this machine's loopback. A web page that "
        "points its own name here is refused.",
    )
    max_body_bytes: int = Field(8 << 20, ge=1024, le=256 << 20, description="Largest body of a request.")
    threads: int = Field(16, ge=1, le=256, description="How many requests are worked on at once.")
    open_metrics: bool = Field(False, description="Serve `/metrics` also without a key.")
    tls_certificate: str = Field("", description="File of a certificate (PEM, with its chain): serve HTTPS with it.")
    tls_key: str = Field("", description="File of the certificate's key.")


NoticeKindName = Literal["group_found", "group_regressed", "lane_stuck", "desk_growing", "duty_failed"]
_ALL_KINDS: list[NoticeKindName] = ["group_found", "group_regressed", "lane_stuck", "desk_growing", "duty_failed"]
TargetName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$")]


class WebhookSettings(_Part):
    """One webhook."""

    name: TargetName
    url: str = Field(pattern=r"^https?://[^\s@]+$", repr=False)  # may hold a token in its path
    secret: str = Field(min_length=16, repr=False)
    kinds: list[NoticeKindName] = _ALL_KINDS


class EmailSettings(_Part):
    """One e-mail notification."""

    name: TargetName
    to: list[Annotated[str, Field(pattern=r"^[^\s<>,;@]+@[^\s<>,;@]+$")]] = Field(min_length=1)
    kinds: list[NoticeKindName] = _ALL_KINDS


class SmtpSettings(_Part):
    """The mail server."""

    host: str = Field("", description="Its name; empty: there is none.", pattern=r"^[a-zA-Z0-9.:_-]*$")
    port: int = Field(587, ge=1, le=65535, description="Its port.")
    security: Literal["starttls", "tls", "none"] = Field(
        "starttls", description="`starttls` (usually port 587), `tls` from the start (465), or `none` at all."
    )
    user: str = Field("", description="Log-in at the server; empty: without.")
    password: str = Field("", repr=False, description="Its password.")
    sender: str = Field("towpath@localhost", description="From whom mails are.", pattern=r"^[^\s<>,;@]+@[^\s<>,;@]+$")


class NotifySettings(_Part):
    """Notifications: what people should hear of, by webhook and e-mail."""

    window_s: Seconds = Field(
        60.0, description="How long notices are collected before they are sent together: at most one message in it."
    )
    repeat_s: Seconds = Field(3600.0, description="The same notice is not sent again within this time; it is counted.")
    timeout_s: Seconds = Field(10.0, description="Longest time for one delivery.")
    attempts: int = Field(
        10,
        ge=1,
        le=100,
        description="Deliveries that are tried, after 5 s, 10 s, 20 s … up to an hour, before giving up.",
    )
    retention_s: Age = Field(30 * 86400.0, description="Age at which notices that were sent are deleted, or `never`.")
    lane_stuck_s: Seconds = Field(300.0, description="A lane is stuck when what is due has waited for this long.")
    growing_cases: int = Field(1000, ge=1, description="The desk is growing when this many cases have been opened …")
    growing_s: Seconds = Field(600.0, description="… within this time.")
    ca_file: str = Field("", description="Certificates to trust in place of the system's, for webhooks and mail.")
    webhooks: list[WebhookSettings] = Field(
        [],
        repr=False,
        description="Each with `name`, `url`, `secret` (16 characters or more, or `whsec_…`) and perhaps `kinds`.",
    )
    emails: list[EmailSettings] = Field([], description="Each with `name`, `to` (a list) and perhaps `kinds`.")
    smtp: SmtpSettings = SmtpSettings()

    @model_validator(mode="after")
    def _targets_fit(self) -> NotifySettings:
        names = [*(each.name for each in self.webhooks), *(each.name for each in self.emails)]
        if len(set(names)) < len(names):
            raise ValueError("two targets have the same name")
        if self.emails and not self.smtp.host:
            raise ValueError("emails need a mail server: set notify.smtp.host")
        return self


class SupervisionSettings(_Part):
    """Peers that keep processes running: `towpath up`."""

    cluster: str = Field(
        "towpath",
        description="Name of all that belongs together; peers of another cluster are not heard.",
        pattern=r"^[a-zA-Z0-9._-]{1,40}$",
    )
    host: str = Field(
        "",
        description="What this machine is called in `hosts` and in `up.NAME.host`; empty: its host name.",
        pattern=r"^[a-zA-Z0-9._-]{0,80}$",
    )
    hosts: list[Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]{1,80}$")]] = Field(
        [], description="All machines, the same list on each; peers are dealt out to them in turn. Empty: this one."
    )
    peers: int = Field(3, ge=1, le=31, description="How many peers there are on all machines together.")
    listen: str = Field(
        "127.0.0.1",
        description="The interface on which peers and processes of this machine are asked for signs of life (UDP).",
        pattern=r"^[a-zA-Z0-9.:_-]+$",
    )
    address: str = Field(
        "",
        description="Under which other machines reach that; empty: the same. Needed when `listen` is `0.0.0.0`.",
        pattern=r"^[a-zA-Z0-9.:_-]*$",
    )
    port: int = Field(
        0,
        ge=0,
        le=65000,
        description="Peer number n listens on this port + n; 0: on any free port, which the others read in the "
        "database. Other processes always listen on any free port.",
    )
    secret: str = Field("", repr=False, description="With which what peers say is signed; empty: that in the file.")
    secret_file: str = Field(
        "",
        description="File with that secret, the same on all machines, readable by its owner only. Empty: a file beside "
        "the SQLite database, or `.towpath/secret`; it is made when it is missing.",
    )
    directory: str = Field(
        ".towpath/supervision",
        description="What is kept of processes that were started: logs, and how they ended.",
    )
    docker_socket: str = Field("/var/run/docker.sock", description="Where the Docker Engine listens on this machine.")
    docker_network: str = Field(
        "", description="The network of containers, or `host`; empty: the engine's own choice.", pattern=r"^[\w.:-]*$"
    )
    docker_mounts: list[Annotated[str, Field(pattern=r"^[^:]+:/[^:]*(:[a-zA-Z,]+)?$")]] = Field(
        [],
        description="What containers see of this machine, as `/on/this/machine:/in/the/container` or "
        "`volume:/in/the/container`; with `:ro` behind it only to be read.",
    )
    docker_user: str = Field(
        "", description="As whom containers run, as `uid:gid`; empty: as their image says.", pattern=r"^[\w.:-]*$"
    )
    election_s: Seconds = Field(1.0, description="A peer whose coordinator is silent for this long elects another.")
    lease_s: Seconds = Field(
        2.0, description="A coordinator that has not renewed its term for this long does nothing any more."
    )
    ping_s: Seconds = Field(1.0, description="How often a process is asked for a sign of life.")
    silent_s: Seconds = Field(
        2.5, description="A process that neither beats nor answers for this long is ended by force and started again."
    )
    start_s: Seconds = Field(
        60.0, description="A process that has not shown itself this long after its start is ended and started again."
    )
    settle_s: Seconds = Field(
        3.0, description="A process that is not Towpath's, and so cannot say it, counts as ready after this time."
    )
    retry_least_s: Seconds = Field(0.5, description="First wait before a process that has died is started again.")
    retry_most_s: Seconds = Field(60.0, description="Longest such wait; each death before it was ready doubles it.")
    early_deaths: int = Field(
        5, ge=1, le=1000, description="Deaths in a row before it was ready after which it is not started again."
    )
    retention_s: Age = Field(90 * 86400.0, description="Age at which records of deaths are deleted, or `never`.")

    @model_validator(mode="after")
    def _times_fit(self) -> SupervisionSettings:
        if self.silent_s < 2 * self.ping_s:
            raise ValueError(
                f"silent_s ({self.silent_s:g}) must be at least twice ping_s ({self.ping_s:g}), "
                "or a lost packet would kill a living process"
            )
        if self.retry_most_s < self.retry_least_s:
            raise ValueError(f"retry_most_s ({self.retry_most_s:g}) is less than retry_least_s")
        if self.listen in ("0.0.0.0", "::") and not self.address:  # noqa: S104 - it is refused
            raise ValueError(f"listen = {self.listen} needs address: what others reach this machine under")
        if len(set(self.hosts)) < len(self.hosts):
            raise ValueError("hosts names one machine twice")
        return self


DeskPartKind = Literal["intake", "relay", "replayer", "jobs", "notices", "janitor"]
DutyKind = Literal["flow", "actors", "desk", DeskPartKind, "api", "gateway", "console", "command"]
UpName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,59}$")]


class UpSettings(_Part):
    """One thing that `towpath up` keeps running."""

    kind: DutyKind = Field(
        description="`flow`, `actors`, `desk` (or one of its parts: `intake`, `relay`, `replayer`, `jobs`, `notices`, "
        "`janitor`), `api`, `gateway`, `console`, or `command` for any program."
    )
    target: str = Field("", description="Of a flow: its file or module and name, as `towpath run` takes it.")
    command: list[str] = Field([], description="Of a command: the program and its arguments.")
    arguments: list[str] = Field([], description="Further arguments, such as modules of actors, or options.")
    copies: int = Field(1, ge=1, le=1000, description="How many processes of it; of a flow one.")
    host: str = Field("", description="The machine that it runs on; empty: the first one.", pattern=r"^[\w.-]{0,80}$")
    launcher: Literal["subprocess", "docker"] = Field("subprocess", description="How it is started.")
    image: str = Field("", description="Docker only: the image.")
    directory: str = Field("", description="Where it works; empty: where the settings file is.")
    environment: dict[str, str] = Field({}, repr=False, description="Variables that it gets besides those of its peer.")
    grace_s: Seconds | None = Field(None, description="How long it may take to stop; else `process.grace_s` and a bit.")
    memory_mb: int | None = Field(None, ge=1, description="Most memory that it may use.")
    cpu_s: int | None = Field(None, ge=1, description="Most time of computing.")
    open_files: int | None = Field(None, ge=1, description="Most files that it may have open.")
    processes: int | None = Field(None, ge=1, description="Most processes that it may be.")

    @model_validator(mode="after")
    def _kind_fits(self) -> UpSettings:
        if (self.kind == "flow") != bool(self.target):
            raise ValueError('a flow, and nothing else, needs target, as in target = "page_views:flow"')
        if (self.kind == "command") != bool(self.command):
            raise ValueError('a command, and nothing else, needs command, as in command = ["sleep", "60"]')
        if self.kind == "flow" and self.copies > 1:
            raise ValueError("one process at a time runs a flow: leave copies away")
        if (self.launcher == "docker") != bool(self.image):
            raise ValueError("launcher docker, and nothing else, needs an image")
        return self


StreamName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9_-]{0,59}$")]
InputName = StreamName
ResultName = StreamName


class InputSettings(_Part):
    """One input of a stream: the topic that its lines go to, and what they must look like."""

    topic: str = Field("", description="The topic; empty: `STREAM.INPUT`, or `STREAM` if both are called the same.")
    partitions: int | None = Field(
        None, ge=1, le=10_000, description="Partitions of the topic when the gateway makes it; else `log.partitions`."
    )
    ddl: str = Field(
        "",
        alias="schema",
        description="What its lines must look like, as `name string not null, at bigint`. Without one, columns of a "
        "CSV are strings, and JSON lines are any objects.",
    )
    key: str = Field(
        "", description="The field whose text is the key of a record; `upload_field` keeps an upload in one partition."
    )
    after: list[InputName] = Field(
        [], description="Inputs of the same upload that the flow must have passed before this one is taken."
    )


class StreamSettings(_Part):
    """One kind of upload that clients may open."""

    flow: str = Field(
        "", description="The flow whose stages must have passed the data before an upload closes; empty: none."
    )
    upload_field: str = Field(
        "upload", min_length=1, description="The field of each record that holds the id of its upload."
    )
    line_field: str = Field("", description="The field that holds the number of its line; empty: none.")
    results: list[ResultName] = Field([], description="Names of the queries whose results go back to the client.")
    wait_for_replays_s: Age = Field(
        None,
        description="How long an upload that could close waits for records of it that are being replayed; `never`: "
        "not at all.",
    )
    inputs: dict[InputName, InputSettings] = Field({}, description="Its inputs; none: one that is called like it.")

    @model_validator(mode="after")
    def _inputs_fit(self) -> StreamSettings:
        if self.line_field == self.upload_field:
            raise ValueError(f"upload_field and line_field are both {self.line_field!r}")
        if len(set(self.results)) < len(self.results):
            raise ValueError("results names one query twice")
        for name, each in self.inputs.items():
            unknown = [other for other in each.after if other not in self.inputs or other == name]
            if unknown:
                raise ValueError(f"inputs.{name}.after: {unknown[0]} is not another input of the stream")
        return self


class ExpirySettings(_Part):
    """A rule by which uploads that nobody goes on with expire."""

    stream: str = Field("*", description="Of which stream; `*`: of all.")
    state: Literal["receiving", "sending"] = Field(
        description="In which state: `receiving` (never finished) or `sending` (results never fetched)."
    )
    after_s: Seconds = Field(description="How long nobody was heard of.")
    approved_by: str = Field(min_length=1, description="The person who answers for it.")
    why: str = Field(min_length=1, description="The reason.")


class GatewaySettings(_Part):
    """Uploads of clients, and results for them."""

    directory: str = Field(
        "towpath-uploads",
        description="Where results and collected data lie. With several hosts: a directory that all of them share.",
    )
    chunk_bytes: int = Field(8 << 20, ge=1024, le=256 << 20, description="Largest chunk of one request, uncompressed.")
    line_bytes: int = Field(
        1 << 20,
        ge=64,
        le=32 << 20,
        description="Longest line; a longer one becomes a case. At most a quarter of `log.max_record_bytes`.",
    )
    upload_bytes: Most = Field(None, description="Most bytes of one upload; `never`: no limit.")
    upload_lines: Most = Field(None, description="Most lines of one upload; `never`: no limit.")
    requests_per_s: MostRate = Field(None, description="Most requests a second with one API key; `never`: no limit.")
    bytes_per_s: MostRate = Field(None, description="Most bytes a second with one API key; `never`: no limit.")
    behind_records: int = Field(
        2_000_000, ge=1, description="A flow that has more than so many records to read takes no more from senders."
    )
    retry_after_s: Seconds = Field(1.0, description="When a sender that has to wait is told to come again.")
    idle_s: Seconds = Field(60.0, description="What is kept open for a sender is closed after so long without a chunk.")
    settle_s: Seconds = Field(
        600.0,
        description="What a process left undecided when it died in the middle of a chunk is decided after this time, "
        "also if the sender does not come back.",
    )
    retention_s: Age = Field(
        90 * 86400.0, description="Age at which the row of an upload that has ended is deleted, or `never`."
    )
    janitor_s: Seconds = Field(300.0, description="How often rules of expiry are applied, and old uploads deleted.")
    streams: dict[StreamName, StreamSettings] = Field({}, description="What clients may send.")
    expiry: list[ExpirySettings] = Field(
        [],
        description="Rules by which uploads expire that nobody goes on with, each with `stream`, `state`, `after_s`, "
        "`approved_by` and `why`. Without one they are kept.",
    )

    @model_validator(mode="after")
    def _chunks_hold_lines(self) -> GatewaySettings:
        if self.chunk_bytes < 2 * self.line_bytes:
            raise ValueError(
                f"chunk_bytes ({self.chunk_bytes}) must be at least twice line_bytes ({self.line_bytes}), "
                "or it could not be seen that a line is too long"
            )
        unknown = [rule.stream for rule in self.expiry if rule.stream != "*" and rule.stream not in self.streams]
        if unknown:
            raise ValueError(f"expiry: there is no stream {unknown[0]!r}")
        return self


class ComplaintSettings(_Part):
    """What readers say about documents."""

    public: bool = Field(False, description="Take complaints at `POST /complaints` from anybody, without a key.")
    per_minute: Annotated[float, Field(gt=0, le=6_000)] = Field(
        5.0, description="How many are taken from one address in a minute."
    )
    most_new: int = Field(
        1_000, ge=1, description="While so many wait that nobody has looked at, no more are taken from the public."
    )
    retention_s: Age = Field(365 * 86400.0, description="Age at which settled complaints are deleted, or `never`.")
    janitor_s: Seconds = Field(300.0, description="How often old complaints are deleted. Done by `towpath api run`.")


class LoggingSettings(_Part):
    """What is logged, and how."""

    level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least severe level that is shown.")
    format: Literal["text", "json"] = Field("text", description="`text` for people, `json` for log collectors.")


class Settings(BaseSettings):
    """All settings of one process."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter=NESTED, frozen=True, extra="forbid", case_sensitive=False
    )

    database: DatabaseSettings = DatabaseSettings()
    process: ProcessSettings = ProcessSettings()
    queue: QueueSettings = QueueSettings()
    actors: ActorSettings = ActorSettings()
    catalog: CatalogSettings = CatalogSettings()
    log: LogSettings = LogSettings()
    spark: SparkSettings = SparkSettings()
    flow: FlowSettings = FlowSettings()
    desk: DeskSettings = DeskSettings()
    stack: StackSettings = StackSettings()
    access: AccessSettings = AccessSettings()
    api: ApiSettings = ApiSettings()
    notify: NotifySettings = NotifySettings()
    supervision: SupervisionSettings = SupervisionSettings()
    up: dict[UpName, UpSettings] = {}
    gateway: GatewaySettings = GatewaySettings()
    complaints: ComplaintSettings = ComplaintSettings()
    logging: LoggingSettings = LoggingSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # Flags and file both come through the constructor, merged by `load`; the environment stands between them.
        return (init_settings, env_settings)


def load(flags: dict[str, Any] | None = None, file: Path | None = None) -> Settings:
    """Read the settings of this process.

    `flags` holds nested values (`{"database": {"url": …}}`) and overrules the rest. `file` must exist when given;
    otherwise `TOWPATH_CONFIG` or a `towpath.toml` in the working directory is read if there is one.
    """
    path = _find(file)
    from_file = _read(path) if path else {}
    _check_variables()
    overruled = _merge(_without_variables(from_file), flags or {})
    try:
        return _anchored(Settings(**overruled), directory_of(file), flags or {})
    except ValidationError as error:
        raise BadSettings(_explain(error, path, flags or {})) from error
    except SettingsError as error:
        raise BadSettings(f"a {PREFIX}* variable cannot be read: {error}") from error


SQLITE_PREFIX = "sqlite:///"
# Paths that belong to an installation, by section.
_PATHS = {
    "actors": ("directory",),
    "flow": ("directory",),
    "desk": ("directory",),
    "stack": ("directory",),
    "notify": ("ca_file",),
    "supervision": ("directory", "secret_file"),
    "gateway": ("directory",),
}
_SECRET_FILE = ".towpath/secret"  # noqa: S105 - where it is, not what it is


def _anchored(settings: Settings, directory: Path, flags: dict[str, Any]) -> Settings:
    """Paths count from the settings file, so that who looks from elsewhere means the same; those of flags do not."""
    if directory == Path.cwd():
        return settings
    found = {section: _paths_from(directory, getattr(settings, section), keys) for section, keys in _PATHS.items()}
    found["database"] = {"url": sqlite_from(settings.database.url, directory)}
    found["log"] = {"url": sqlite_from(settings.log.url, directory)}
    if not settings.database.url.startswith(SQLITE_PREFIX):  # otherwise it lies beside the database
        found["supervision"].setdefault("secret_file", str(directory / _SECRET_FILE))
    parts = {}
    for section, values in found.items():
        given = flags.get(section, {})
        parts[section] = getattr(settings, section).model_copy(
            update={key: value for key, value in values.items() if key not in given}
        )
    return settings.model_copy(update=parts)


def _paths_from(directory: Path, part: _Part, keys: tuple[str, ...]) -> dict[str, str]:
    return {key: str(directory / Path(value).expanduser()) for key in keys if (value := getattr(part, key))}


def sqlite_from(url: str, directory: Path) -> str:
    """The same address with its path seen from a directory; one of a server stays as it is."""
    if not url.startswith(SQLITE_PREFIX) or url == SQLITE_PREFIX:
        return url
    return SQLITE_PREFIX + str(directory / Path(url.removeprefix(SQLITE_PREFIX)).expanduser())


def file_of(file: Path | None = None) -> Path | None:
    """The settings file that `load` reads, if there is one."""
    path = _find(file)
    return None if path is None else path.resolve()


def directory_of(file: Path | None = None) -> Path:
    """Where the settings file is that `load` reads; without one, the working directory."""
    path = _find(file)
    return Path.cwd() if path is None else path.resolve().parent


def _find(file: Path | None) -> Path | None:
    named = file or (Path(os.environ["TOWPATH_CONFIG"]) if os.environ.get("TOWPATH_CONFIG") else None)
    if named is not None:
        if not named.is_file():
            raise BadSettings(f"settings file {named} does not exist; make it, or leave --config away")
        return named
    default = Path(FILE_NAME)
    return default if default.is_file() else None


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadSettings(f"settings file {path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSettings(f"{path} is not valid TOML: {error}") from error


def _variable(keys: tuple[str, ...]) -> str:
    return PREFIX + NESTED.join(keys).upper()


def _is_set(keys: tuple[str, ...]) -> bool:
    return _variable(keys) in {name.upper() for name in os.environ}


def _without_variables(values: dict[str, Any], above: tuple[str, ...] = ()) -> dict[str, Any]:
    """The file's values less those that a variable overrules."""
    kept = {}
    for key, value in values.items():
        keys = (*above, key)
        if not _is_set(keys):
            kept[key] = _without_variables(value, keys) if isinstance(value, dict) else value
    return kept


def _merge(low: dict[str, Any], high: dict[str, Any]) -> dict[str, Any]:
    merged = dict(low)
    for key, value in high.items():
        below = merged.get(key)
        merged[key] = _merge(below, value) if isinstance(value, dict) and isinstance(below, dict) else value
    return merged


def all_keys(model: type[BaseModel] = Settings, above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every setting as its path of keys, such as `("database", "url")`."""
    found: list[tuple[str, ...]] = []
    for name, field in model.model_fields.items():
        keys = (*above, field.alias or name)
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            found += all_keys(inner, keys)
        else:
            found.append(keys)
    return found


def _check_variables() -> None:
    known = {_variable(keys) for keys in all_keys()} | NOT_SETTINGS
    unknown = sorted(v for v in os.environ if v.upper().startswith(PREFIX) and v.upper() not in known)
    if unknown:
        raise BadSettings(f"{unknown[0]} is not a setting; known variables: {', '.join(sorted(known))}")


def _explain(error: ValidationError, path: Path | None, flags: dict[str, Any]) -> str:
    lines = []
    for problem in error.errors(include_url=False):
        keys = tuple(str(part) for part in problem["loc"])
        text = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            text = "there is no such setting"
        lines.append(f"{_origin(keys, path, flags)}: {'.'.join(keys)}: {text}")
    return "; ".join(lines)


def _origin(keys: tuple[str, ...], path: Path | None, flags: dict[str, Any]) -> str:
    inside: Any = flags
    for key in keys:
        inside = inside.get(key) if isinstance(inside, dict) else None
    if inside is not None:
        return "command line"
    if _is_set(keys):
        return f"variable {_variable(keys)}"
    return str(path) if path else "settings"
