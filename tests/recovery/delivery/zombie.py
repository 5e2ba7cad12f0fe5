"""A task of an attempt that was thought dead: it stands still with its writer open, and wakes when another has written.

It is a task of the older launch, with a delivery that its successor has made too, under another delivery id: as if a
step had answered differently. No mark can tell that it is the same.
"""

from __future__ import annotations

import json
from hashlib import sha256

from tests.recovery.delivery.rig import Rig

from towpath.flow.delivery.ledger import BatchSnapshot, BatchState
from towpath.flow.sinks.sink import Deliveries, Writer, WriterContext
from towpath.flow.stage.store import StageStore

OUTPUT = "main"


class Zombie:
    """Holds the writer of the first unit of the batch that is open."""

    def __init__(self, rig: Rig) -> None:
        runtime = rig.world.connect()
        flow = rig.flow()
        batch = next(batch for batch in rig.world.batches(flow) if batch.state is BatchState.SNAPSHOT)
        with runtime.database.read() as tx:
            launch = StageStore(runtime.database).read(tx, flow.name, batch.stage).launch
        place = WriterContext(
            flow.name,
            batch.stage,
            OUTPUT,
            batch.hash,
            f"{rig.topics[0]}/0",
            runtime.settings,
            batch.generation,
            batch.batch_id,
            rig.case.strategy,
            launch,
            BatchSnapshot.of_value(batch.units).marks_since,
        )
        sinks = {output.name: output.sink for stage in flow.stages() for output in stage.outputs}
        sink = sinks[OUTPUT]
        self._writer: Writer = sink.writer(place)
        self._target = sink.target.filler()({})
        self._writer.write(self._delivery(0))

    def wake(self) -> None:
        """Go on as if nothing had happened."""
        try:
            self._writer.write(self._delivery(1))
            self._writer.finish()
        finally:
            self._writer.close()

    def _delivery(self, n: int) -> Deliveries:
        document = json.dumps({"n": n, "kind": "good", "fits": 1}).encode()
        delivery_id = sha256(b"another %d" % n).digest()
        return Deliveries([document], [self._target], [f"another:{n}"], [delivery_id], [n], [b"%d" % n], [1])
