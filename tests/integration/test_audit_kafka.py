"""The audit on Kafka, where transactions leave offsets that hold nothing."""

from __future__ import annotations

from uuid import uuid4

import pytest
from tests.support.audited import Audited
from tests.support.quiet import Quiet

from towpath.flow.audit.audit import Audit
from towpath.flow.audit.rows import ProblemKind
from towpath.flow.audit.trace import Tracer
from towpath.flow.delivery.places import RecordPlace
from towpath.log import NewRecord, open_log
from towpath.settings import LogSettings
from towpath.stack.kafka import KafkaServer
from towpath.testing.clock import wait_until


@pytest.mark.parametrize("database_settings", ["sqlite"], indirect=True)
def test_offsets_that_hold_nothing_are_not_counted(quiet: Quiet, kafka: KafkaServer) -> None:
    name = f"t{uuid4().hex[:12]}"
    log = open_log(LogSettings(url=kafka.url, namespace=name), quiet.database)
    quiet.closed_with_it.append(log)
    flow = Audited(quiet, log, f"flow-{name}", f"clicks-{name}")
    producer = log.producer(name)
    for fate in (b"loaded", b"failed", b"loaded"):
        with producer.transaction() as tx:
            tx.append(flow.name, [NewRecord(fate, partition=0)])
    wait_until(lambda: log.ends(flow.name)[0] >= 6, what="the markers of three transactions")
    flow.run("filtered")
    flow.send("loaded")
    found = Audit(quiet.database, log, flow.flow).run()
    assert found.problems == []
    assert found.balance.arrived == 5
    assert found.balance.places == {
        RecordPlace.LOADED: 2,
        RecordPlace.FILTERED: 1,
        RecordPlace.FAILED: 1,
        RecordPlace.IN_FLIGHT: 1,
    }
    [hole] = Tracer(quiet.database, log, flow.flow).trace(flow.name, 0, 1)
    assert hole.place is None
    log.delete_before(flow.topics.errors, {0: 1})
    [problem] = Audit(quiet.database, log, flow.flow).run().problems
    assert (problem.kind, problem.batch_id) == (ProblemKind.FAILED, 0)
    producer.close()
