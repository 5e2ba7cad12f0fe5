"""Opens the log that the settings name."""

from __future__ import annotations

from towpath.db import Database, open_database
from towpath.errors import BadSettings
from towpath.log.log import Log
from towpath.log.sqlite.log import SqliteLog
from towpath.settings import DatabaseSettings, LogSettings

KAFKA_PREFIX = "kafka://"
EMBEDDED = "embedded"


def open_log(settings: LogSettings, database: Database) -> Log:
    """The log that the settings name; `embedded` is in the SQLite database of the control plane."""
    if settings.url.startswith(KAFKA_PREFIX):
        # The client library is loaded only where it is used.
        from towpath.log.kafka.log import KafkaLog

        return KafkaLog(settings.url.removeprefix(KAFKA_PREFIX), settings)
    if settings.url != EMBEDDED:
        return SqliteLog(open_database(DatabaseSettings(url=settings.url)), settings, owns_database=True)
    if database.dialect != "sqlite":
        raise BadSettings(
            "log.url: an embedded log needs a SQLite database, and database.url is PostgreSQL; "
            "name a Kafka (kafka://host:port) or a file (sqlite:///path)"
        )
    return SqliteLog(database, settings)


def is_in_sqlite(settings: LogSettings, database: Database) -> bool:
    """Whether the topics are in a SQLite file; an installation with PostgreSQL and only queues has no topics."""
    if settings.url == EMBEDDED:
        return database.dialect == "sqlite"
    return not settings.url.startswith(KAFKA_PREFIX)
