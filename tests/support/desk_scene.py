"""A flow with a desk behind it whose parts go round when a test says so, from an error to its outcome, no Spark."""

from __future__ import annotations

from tests.support import flow_world
from tests.support.desk import NO_CITY, STAGE, DeskFlow, intake_of, take_all
from tests.support.desk_world import COLUMNS
from tests.support.logs import everything
from tests.support.sent import sending_parts

from towpath.desk.replay.relay import Relay
from towpath.flow.failures import RecordFailure
from towpath.flow.stage.store import StageStore
from towpath.log import Record
from towpath.runtime import Runtime


class DeskScene:
    """The flow `shop`, which reads `orders`."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        shape = flow_world.topology("orders")
        shape["steps"][0] |= {"columns": COLUMNS, "rules": None, "join": None, "extra": "keep"}
        with runtime.database.transaction() as tx:
            StageStore(runtime.database).ensure(tx, "shop", STAGE, shape)
        self.flow = DeskFlow(runtime, "shop")
        self.intake = intake_of(runtime)
        self.relay = Relay(sending_parts(runtime))
        self.back = 0
        self.batches = 0

    def fail(self, *values: bytes, failure: RecordFailure = NO_CITY, first: int = 0) -> None:
        """Records fail, and the desk takes them in."""
        for offset, value in enumerate(values, first):
            self.flow.fail(offset, failure=failure, value=value, key=b"k%d" % offset)
        take_all(self.intake)

    def come_back(self) -> list[Record]:
        """What the desk has sent back into the flow since the last time."""
        self.relay.run_once()
        found = everything(self.runtime.log, self.flow.topics.reentry)
        new, self.back = found[self.back :], len(found)
        return new

    def load(self, *records: Record) -> None:
        """The flow has loaded them."""
        self.batches += 1
        for record in records:
            self.flow.outcome(record, hash=f"b{self.batches}")
        take_all(self.intake)

    def fail_again(self, record: Record) -> None:
        self.batches += 1
        self.flow.fail_again(record, hash=f"b{self.batches}")
        take_all(self.intake)
