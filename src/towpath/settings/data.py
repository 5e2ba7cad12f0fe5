"""Settings of the log, flows, Spark, local servers and the desk."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from towpath.settings.base import Age, Seconds, SettingsSection


class LogSettings(SettingsSection):
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


class FlowSettings(SettingsSection):
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


class SparkSettings(SettingsSection):
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


class StackSettings(SettingsSection):
    """Servers on this machine for trying things out: `towpath stack`."""

    directory: str = Field(".towpath/stack", description="Where the servers keep data, logs and ports.")


class DeskSettings(SettingsSection):
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
