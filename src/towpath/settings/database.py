"""Settings of the database."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from towpath.settings.part import Part, Seconds


class DatabaseSettings(Part):
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
