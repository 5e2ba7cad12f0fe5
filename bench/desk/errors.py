"""Error records as a flow writes them, and the intake that takes them in."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from towpath.db import Transaction
from towpath.desk.background import open_intake
from towpath.desk.intake.service import DeskIntake
from towpath.flow.failures import ErrorCode, RecordFailure
from towpath.flow.records.errors import BatchName, error_records
from towpath.flow.stage.store import StageStore
from towpath.flow.topics import FlowTopics
from towpath.flow.worker.report import FailedRecord
from towpath.notify.model import Notice
from towpath.runtime import Runtime

AT_ONCE = 5_000
BODY_BYTES = 200
STAGE, SOURCE = "main", "orders"
_FRAMES = "".join(
    f'  File "/app/shop/part{at}.py", line {at * 7}, in step{at}\n    given = step(given)\n' for at in range(8)
)


class _Nobody:
    """Nobody wants to hear of new groups."""

    def tell(self, tx: Transaction, notice: Notice) -> None:
        pass


def make_flow(runtime: Runtime, flow: str) -> None:
    """A flow that has run, with its topics."""
    FlowTopics.of(flow).ensure(runtime.log, 4)
    with runtime.database.transaction() as tx:
        StageStore(runtime.database).ensure(tx, flow, STAGE, {})


def append_errors(runtime: Runtime, flow: str, count: int, start: int = 0) -> None:
    """Errors of one cause, each with its own message, body and trace."""
    batch = BatchName(flow, STAGE, "1", 1, 0, "b" * 64, "bench")
    told = error_records(_failed(start, count), batch, {SOURCE: "orders-id"})
    while portion := list(islice(told, AT_ONCE)):
        runtime.log.append(FlowTopics.of(flow).errors, portion)


def intake_of(runtime: Runtime) -> DeskIntake:
    parts = (runtime.settings, runtime.database, lambda: runtime.log, runtime.events, runtime.event_log)
    return open_intake(*parts, _Nobody())


def _failed(start: int, count: int) -> Iterator[FailedRecord]:
    for number in range(start, start + count):
        message = f"no price for article {number} of 'shelf {number % 97}'"
        trace = f"Traceback (most recent call last):\n{_FRAMES}KeyError: {message}\n"
        failure = RecordFailure(ErrorCode.TRANSFORM_FAILED, "priced", "KeyError", message, trace)
        body = (b'{"number": %d, "text": "' % number).ljust(BODY_BYTES - 2, b"x") + b'"}'
        place = (SOURCE, number % 4, number // 4, 1_700_000_000_000 + number)
        yield FailedRecord(*place, b"k%d" % number, body, (("source", b"web"),), failure, None, None)
