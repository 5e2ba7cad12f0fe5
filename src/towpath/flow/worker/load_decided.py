"""Loads what was decided before: the tasks of step 4 where step 2 was a job of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from towpath import crash
from towpath.flow.sinks.sink import Sink
from towpath.flow.worker.batch_place import BatchPlace
from towpath.flow.worker.decision import decided, unit_name
from towpath.flow.worker.delivering import Delivering
from towpath.flow.worker.report import Report

NAME = "load"  # of its reports


@dataclass(frozen=True, slots=True)
class LoadDecided:
    """Sent to the workers; a task is given the numbers of the units that it has to load."""

    units: tuple[Path, ...]
    sinks: Mapping[str, Sink]
    batch: BatchPlace

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What `mapInArrow` calls in a worker."""
        for batch in batches:
            for number in batch.column("id").to_pylist():
                self.load(number)
        yield from ()

    def load(self, number: int) -> None:
        crash.arm_worker(self.batch.crash)
        path = self.units[number]
        report = Report(Path(self.batch.directory), f"{NAME}-{number}")
        with ExitStack() as closing:
            delivering = Delivering(self.sinks, self.batch, unit_name(path), report, closing)
            for chunk, deliveries in decided(path, len(self.sinks)):
                delivering.give(chunk, deliveries)
            delivering.finish()
        report.finish()
