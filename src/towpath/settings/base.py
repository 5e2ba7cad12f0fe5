"""What all sections of the settings share, and the sections of the database, the logs and the process."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_NEVER = BeforeValidator(lambda value: None if value == "never" else value)  # a file and a variable have no null
Age = Annotated[Seconds | None, _NEVER]
Most = Annotated[Annotated[int, Field(ge=1)] | None, _NEVER]
MostRate = Annotated[Seconds | None, _NEVER]


class SettingsSection(BaseModel):
    """One section of the settings: frozen, and checked when it is made."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class DatabaseSettings(SettingsSection):
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


class LoggingSettings(SettingsSection):
    """What is logged, and how."""

    level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least severe level that is shown.")
    format: Literal["text", "json"] = Field("text", description="`text` for people, `json` for log collectors.")


class ProcessSettings(SettingsSection):
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
