"""The index sink on OpenSearch: all that holds on Elasticsearch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.integration.test_sink_index import *  # noqa: F403 - its tests and fixtures, with another server

from towpath.testing.servers import OpenSearchServer, opensearch_server

pytestmark = pytest.mark.part("flows")


@pytest.fixture(scope="module")
def elasticsearch() -> Iterator[OpenSearchServer]:
    """Takes the place of the server that those tests name."""
    with opensearch_server() as server:
        yield server
