"""Settings of the log: topics, and who keeps them."""

from __future__ import annotations

from pydantic import Field

from towpath.settings.part import Age, Part, Seconds


class LogSettings(Part):
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
