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
NOT_SETTINGS = frozenset({"TOWPATH_CRASH", "TOWPATH_CONFIG"})  # read elsewhere, or before the settings

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Age = Annotated[Seconds | None, BeforeValidator(lambda value: None if value == "never" else value)]


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


class StackSettings(_Part):
    """Servers on this machine for trying things out: `towpath stack`."""

    directory: str = Field(".towpath/stack", description="Where the servers keep data, logs and ports.")


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
    log: LogSettings = LogSettings()
    spark: SparkSettings = SparkSettings()
    flow: FlowSettings = FlowSettings()
    stack: StackSettings = StackSettings()
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
        return Settings(**overruled)
    except ValidationError as error:
        raise BadSettings(_explain(error, path, flags or {})) from error
    except SettingsError as error:
        raise BadSettings(f"a {PREFIX}* variable cannot be read: {error}") from error


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
