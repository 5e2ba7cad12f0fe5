"""What is tried on the servers only with `make test-slow`: the parts below it are tried there each time."""

from __future__ import annotations

import pytest

# Commands and HTTP: with PostgreSQL or Kafka these do what the part does that they call.
SURFACES = ("test_cli_", "test_web_", "test_console_", "test_gateway_http", "test_outlet_http")
EACH_TIME = ("test_web_idempotency",)
# Processes that die by the hundred. On PostgreSQL those of the queue, of flows and of what the desk sends do so each
# time; these stand on the same transactions.
DYING = (
    "recovery/actors/test_kills.py",
    "recovery/test_access_kills.py",
    "recovery/test_desk_job_kills.py",
    "recovery/test_spawner.py",
    "integration/test_spawner.py",
    "integration/test_coordinator.py",
)
SERVERS = frozenset({"postgres", "kafka"})


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before pytest takes out what is marked."""
    for item in items:
        if _is_for_later(item) and _is_on_server(item):
            item.add_marker(pytest.mark.slow)


def _is_for_later(item: pytest.Item) -> bool:
    stem = item.path.stem
    return (stem.startswith(SURFACES) and stem not in EACH_TIME) or item.path.as_posix().endswith(DYING)


def _is_on_server(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    return callspec is not None and any(isinstance(each, str) and each in SERVERS for each in callspec.params.values())
