"""Commands and HTTP on the servers: only with `make test-slow`; the parts below them are tested there each time."""

from __future__ import annotations

import pytest

# With PostgreSQL or Kafka these do what the part does that they call.
SURFACES = ("test_cli_", "test_web_", "test_console_", "test_gateway_http", "test_outlet_http")
EACH_TIME = ("test_web_idempotency",)
SERVERS = frozenset({"postgres", "kafka"})


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before pytest takes out what is marked."""
    for item in items:
        if item.path.stem.startswith(SURFACES) and item.path.stem not in EACH_TIME and _is_on_server(item):
            item.add_marker(pytest.mark.slow)


def _is_on_server(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    return callspec is not None and any(isinstance(each, str) and each in SERVERS for each in callspec.params.values())
