"""Fixtures for every tier: the two databases, and runtimes on them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from tests.support import clean_start, shared_servers
from tests.support.databases import PostgresDatabases, SqliteTemplate
from tests.support.leases import LONG_LEASE
from tests.support.passwords import quicken_passwords
from tests.support.quiet import LEASE_S, Quiet

import towpath
from towpath.runtime import Runtime
from towpath.settings import Settings
from towpath.stack.kafka import KafkaServer
from towpath.stack.postgres import PostgresServer
from towpath.stack.search import ElasticsearchServer
from towpath.stack.spark_cluster import SparkCluster
from towpath.testing import servers
from towpath.testing.processes import quicken_children
from towpath.testing.quick_java import quicken_servers, quicken_spark

clean_start.clean_process()

pytest_plugins = ["tests.tiers"] + [
    f"tests.support.{name}"
    for name in (
        "actors",
        "desk_world",
        "spawned",
        "cli",
        "http",
        "console",
        "launchers",
        "logs",
        "sent",
        "spark",
        "flows",
        "reports",
        "timetable",
        "upkeep",
        "sending_clients",
        "user_files",
    )
]

# How long an example takes says nothing on a machine that has other things to do.
hypothesis.settings.register_profile("towpath", deadline=None)
hypothesis.settings.load_profile("towpath")

# Starting Java is a third of what the tests ask of a machine.
quicken_spark()
quicken_servers()
quicken_children()
quicken_passwords()

FAST = {
    "process": LONG_LEASE,
    "queue": {"poll_s": 0.5, "caretaker_s": 0.1},
}


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Commands and examples set up the logger of their process; what was there is put back."""
    logger = logging.getLogger("towpath")
    handlers, propagate, level = logger.handlers, logger.propagate, logger.level
    yield
    logger.handlers, logger.propagate = handlers, propagate
    logger.setLevel(level)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One real server for the whole run; each test gets a database or a schema of its own."""
    with shared_servers.postgres() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_databases(postgres: PostgresServer) -> Iterator[PostgresDatabases]:
    """Databases of that server with all tables and no rows."""
    databases = PostgresDatabases(postgres.url)
    yield databases
    databases.close()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> SqliteTemplate:
    return SqliteTemplate(tmp_path_factory.mktemp("template"))


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaServer]:
    """One real broker for the whole run; a test makes topics of its own."""
    with shared_servers.kafka() as server:
        yield server


@pytest.fixture(scope="session")
def elasticsearch() -> Iterator[ElasticsearchServer]:
    """One real node for the whole run; a test makes indices of its own."""
    with shared_servers.elasticsearch() as server:
        yield server


@pytest.fixture(scope="session")
def spark_cluster() -> Iterator[SparkCluster]:
    """One real cluster with a worker for the whole run."""
    with servers.spark_cluster() as cluster:
        yield cluster


@pytest.fixture(params=["sqlite", "postgres"])
def database_settings(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """The `[database]` settings of a new database without rows, on each of the two in turn."""
    if request.param == "sqlite":
        sqlite: SqliteTemplate = request.getfixturevalue("sqlite_template")
        yield sqlite.copied(tmp_path)
    else:
        postgres: PostgresDatabases = request.getfixturevalue("postgres_databases")
        with postgres.empty() as settings:
            yield settings


@pytest.fixture
def make_runtime(database_settings: dict[str, Any]) -> Iterator[Callable[..., Runtime]]:
    """Opens as many runtimes on the one database as the test asks for, and closes them."""
    made: list[Runtime] = []

    def make(**sections: dict[str, Any]) -> Runtime:
        merged: dict[str, Any] = {name: {**FAST.get(name, {}), **sections.get(name, {})} for name in {*FAST, *sections}}
        merged["database"] = {**database_settings, **sections.get("database", {})}
        runtime = towpath.connect(**merged)
        made.append(runtime)
        return runtime

    yield make
    for runtime in made:
        runtime.close()


@pytest.fixture
def runtime(make_runtime: Callable[..., Runtime]) -> Runtime:
    return make_runtime()


@pytest.fixture
def make_quiet(database_settings: dict[str, Any]) -> Iterator[Callable[..., Quiet]]:
    """Opens runtimes on the one database whose background services stand still."""
    made: list[Quiet] = []

    def make(**sections: dict[str, Any]) -> Quiet:
        merged: dict[str, Any] = {
            **sections,
            "database": {**database_settings, **sections.get("database", {})},
            "process": {"heartbeat_s": LEASE_S / 5, "lease_s": LEASE_S, **sections.get("process", {})},
        }
        made.append(Quiet.open(Settings(**merged)))
        return made[-1]

    yield make
    for quiet in made:
        quiet.close()


@pytest.fixture
def quiet(make_quiet: Callable[..., Quiet]) -> Quiet:
    return make_quiet()
