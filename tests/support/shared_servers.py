"""Servers for tests: one of each kind for a process, or those that whoever started the process has started for several.

A test makes topics, databases and indices of its own. One that stops or kills a server starts another.

    python -m tests.support.shared_servers COMMAND [ARGUMENT...]    runs the command with servers for all its processes
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from tests.support.clean_start import run

from towpath.stack.kafka import KafkaServer
from towpath.stack.postgres import PostgresServer
from towpath.stack.search import ElasticsearchServer
from towpath.stack.server import Server
from towpath.testing import servers
from towpath.testing.quick_java import quicken_servers

SHARED = "TESTS_SERVERS"  # a variable: the data directories of running servers by name, as JSON
# No test cuts the power of the machine: what a process has written is there also when that process is killed. Plans do
# not change in the middle of a test because the server has analyzed a table.
POSTGRES = {"fsync": "off", "autovacuum": "off"}
# After a crash PostgreSQL syncs each file of its directory: with a slow disk, as in `make steady`, that takes minutes.
RESTARTED = {"recovery_init_sync_method": "syncfs"}
# Records of tests may carry times of long ago: the broker does not come and delete them in the middle of a test.
KAFKA = {"log.retention.check.interval.ms": str(86_400_000)}

AnyServer = TypeVar("AnyServer", bound=Server)


def postgres() -> AbstractContextManager[PostgresServer]:
    return _shared("postgres", PostgresServer) or servers.postgres_server(POSTGRES)


def own_postgres() -> AbstractContextManager[PostgresServer]:
    """For one test that stops or kills it."""
    return servers.postgres_server(RESTARTED)


def kafka() -> AbstractContextManager[KafkaServer]:
    return _shared("kafka", KafkaServer) or servers.kafka_server(settings=KAFKA)


def elasticsearch() -> AbstractContextManager[ElasticsearchServer]:
    return _shared("elasticsearch", ElasticsearchServer) or servers.elasticsearch_server()


@contextmanager
def shared_servers() -> Iterator[dict[str, str]]:
    """The variables with which processes of tests use the servers that are started here, side by side."""
    kinds: dict[str, AbstractContextManager[PostgresServer | KafkaServer | ElasticsearchServer]] = {
        "postgres": postgres(),
        "kafka": kafka(),
        "elasticsearch": elasticsearch(),
    }
    with ExitStack() as stack, ThreadPoolExecutor(len(kinds)) as pool:
        starting = {name: pool.submit(stack.enter_context, kind) for name, kind in kinds.items()}
        directories = {name: str(each.result().data_dir) for name, each in starting.items()}
        yield {SHARED: json.dumps(directories)}


def _shared(name: str, kind: type[AnyServer]) -> AbstractContextManager[AnyServer] | None:
    given = json.loads(os.environ.get(SHARED, "{}"))
    return _attached(kind(Path(given[name]))) if name in given else None  # type: ignore[call-arg]


@contextmanager
def _attached(server: AnyServer) -> Iterator[AnyServer]:
    if not server.attach():
        raise RuntimeError(f"the shared {server.name} does not run any more; its log: {server.logs[0]}")
    yield server


def main(command: list[str]) -> int:
    quicken_servers()
    with shared_servers() as variables:
        return run(command, {**os.environ, **variables})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
