"""Which batches have read an offset: found by halves, and the same as by looking at all of them."""

from __future__ import annotations

import random

from tests.support.quiet import Quiet

from towpath.flow.delivery.ids import batch_hash
from towpath.flow.delivery.ledger import Batch, Ledger
from towpath.flow.delivery.positions import OffsetRange, Positions, Spot
from towpath.flow.stage.store import StageStore

FLOW, STAGE, TOPIC, ID = "shop", "orders", "orders", "id-1"


class Past:
    """A stage with two generations; its second partition was added in the middle of the first one."""

    def __init__(self, quiet: Quiet, seed: int) -> None:
        self.random = random.Random(seed)
        self.database = quiet.database
        self.me = quiet.process.id
        self.ledger = Ledger(quiet.database, self.me)
        self.stages = StageStore(quiet.database)
        with self.database.transaction() as tx:
            self.stages.ensure(tx, FLOW, STAGE, {})
            self.stages.take(tx, FLOW, STAGE, self.me)
        self.at = {0: 0}
        self.generation = 0
        self.begin({0: 0})

    def begin(self, at: dict[int, int]) -> None:
        starting = Positions.of(OffsetRange(TOPIC, ID, number, start, start) for number, start in at.items())
        with self.database.transaction() as tx:
            before = self.stages.read(tx, FLOW, STAGE)
            said = {"checkpoint": f"/c/{self.generation}", "starting": starting, "topics": {TOPIC: [ID]}}
            self.ledger.supersede_open(tx, FLOW, STAGE)
            self.stages.new_generation(tx, before, self.me, **said)  # type: ignore[arg-type]
        self.at, self.generation, self.next = dict(at), self.generation + 1, 0

    def batch(self, *, commits: bool = True) -> None:
        stops = {number: at + self.random.choice((0, 0, 1, 4, 9)) for number, at in self.at.items()}
        positions = Positions.of(
            OffsetRange(TOPIC, ID, number, self.at[number], stop) for number, stop in stops.items()
        )
        which = (FLOW, STAGE, self.generation, self.next)
        with self.database.transaction() as tx:
            self.ledger.snapshot(tx, *which, batch_hash(*which, positions), positions)
            if commits:
                self.ledger.commit(tx, *which, counts={}, digests={})
        self.at, self.next = stops, self.next + 1

    def readers(self, spot: Spot, offset: int) -> list[Batch]:
        with self.database.read() as tx:
            return self.ledger.readers(tx, FLOW, STAGE, spot, offset)

    def all(self) -> list[Batch]:
        with self.database.read() as tx:
            return self.ledger.batches(tx, FLOW, STAGE, 1_000)


def test_halves_find_what_looking_at_all_finds(quiet: Quiet) -> None:
    past = Past(quiet, 5)
    for number in range(28):
        if number == 9:
            past.at[1] = 0
        past.batch()
    past.batch(commits=False)
    past.begin({0: 7, 1: 3})  # a reset, back into what was read
    for _ in range(12):
        past.batch()
    known = past.all()
    for number in (0, 1, 2):
        for offset in range(max(past.at.values()) + 40):
            expected = [
                batch
                for batch in known
                for each in batch.positions
                if each.spot == (ID, number) and each.start <= offset < each.stop
            ]
            assert past.readers((ID, number), offset) == expected, (number, offset)
    assert past.readers(("another", 0), 3) == []
    assert sum(len(past.readers((ID, 0), offset)) == 2 for offset in range(60)) > 5


def test_a_stage_without_batches_has_read_nothing(quiet: Quiet) -> None:
    assert Past(quiet, 1).readers((ID, 0), 0) == []
