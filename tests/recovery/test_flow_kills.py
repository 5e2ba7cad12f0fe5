"""SIGKILL of everything that a flow needs, while it loads a batch; the flow goes on by itself, and nothing is lost.

Each kill comes while a part of a batch is in the index and another part is not: a worker waits in the middle of its
task until the kill is done. Afterwards the index is compared with what the test has sent, and the audit has to balance.
One broker, one node and one driver serve all tests, so that each of them finds what the others have left.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from tests.recovery.kill_rig import Rig, open_rig

from towpath.flow.failures import ErrorCode

pytestmark = [
    pytest.mark.part("kills"),
    pytest.mark.realtime,
    pytest.mark.timeout(400),
]  # the first one starts the servers and Spark

COUNT = 1000
AWAY = (ErrorCode.LOG_UNAVAILABLE, ErrorCode.NETWORK, ErrorCode.SINK_UNAVAILABLE)


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with open_rig(tmp_path_factory.mktemp("kills")) as made:
        yield made


def test_python_worker(rig: Rig) -> None:
    """It is not the fault of the record that it was at: that one is loaded like the others."""
    with rig.loading(COUNT) as (_, worker):
        os.kill(worker, signal.SIGKILL)
    rig.check()
    assert "fails as a whole" in rig.driver_says, "nobody has noticed"


def test_elasticsearch(rig: Rig) -> None:
    with rig.loading(COUNT) as (batch, _):
        rig.elasticsearch.kill()
    rig.wait_for_trouble(ErrorCode.SINK_UNAVAILABLE, ErrorCode.NETWORK)
    rig.elasticsearch.start()
    rig.check(batch)


def test_kafka(rig: Rig) -> None:
    with rig.loading(COUNT) as (batch, _):
        rig.kafka.kill()
    rig.wait_for_trouble(ErrorCode.LOG_UNAVAILABLE, ErrorCode.NETWORK)
    rig.kafka.start()
    rig.check(batch)


def test_network(rig: Rig) -> None:
    with rig.loading(COUNT) as (batch, _):
        rig.cut()
    rig.wait_for_trouble(*AWAY)
    rig.mend()
    rig.check(batch)


def test_driver(rig: Rig) -> None:
    with rig.loading(COUNT) as (batch, _):
        rig.kill_driver()
    rig.start_driver()
    rig.check(batch)
