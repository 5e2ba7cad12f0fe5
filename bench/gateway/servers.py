"""Where a gateway keeps its things: files, or servers of their own with nothing in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from bench.gateway.lines import Log
from towpath.testing.servers import kafka_server, postgres_server


@dataclass(frozen=True)
class Servers:
    """Addresses, empty for files; versions by name."""

    database: str = ""
    log: str = ""
    versions: dict[str, str] = field(default_factory=dict)


@contextmanager
def fresh(log: Log) -> Iterator[Servers]:
    if log is Log.SQLITE:
        yield Servers()
        return
    with kafka_server() as kafka, postgres_server() as postgres:
        versions = {"Apache Kafka": kafka.version, "PostgreSQL": postgres.version}
        yield Servers(postgres.url, f"kafka://{kafka.bootstrap}", versions)
