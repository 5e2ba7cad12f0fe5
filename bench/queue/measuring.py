"""Runs a cell once and checks that the work was really done."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from bench.queue.cells import Cell
from bench.queue.contenders.contract import Operation, Order
from bench.queue.field import Entry
from bench.queue.process import ContenderFailed, ContenderProcess
from bench.queue.stores import Stores

ARRIVAL_S = 1.0


class Measuring:
    """Measures on fresh stores; rates are messages a second, round trips are seconds."""

    def __init__(self, stores: Stores, interpreter: Callable[[Entry], Path]) -> None:
        self._stores = stores
        self._interpreter = interpreter

    def measure(self, cell: Cell) -> list[float]:
        """One rate, or the times of all round trips."""
        waiting = cell.count if cell.operation == Operation.DRAIN else 0
        address = self._stores.fresh(cell.entry, waiting)
        try:
            if cell.operation == Operation.ASK:
                return self._round_trips(cell, address)
            return [self._rate(cell, address)]
        finally:
            self._stores.drop(cell.entry, address)

    def _rate(self, cell: Cell, address: str) -> float:
        with ExitStack() as stack:
            processes = [
                stack.enter_context(self._process(cell, cell.operation, address)) for _ in range(cell.processes)
            ]
            for process in processes:
                process.wait_ready()
            for process in processes:
                process.go()
            reports = [process.lines()[-1] for process in processes]
        _check(cell, reports)
        # A process that came too late to get a message was still starting up.
        worked = [report for report in reports if report["count"]]
        started = min(float(report["started"]) for report in worked)
        ended = max(float(report["ended"]) for report in worked)
        return cell.count / (ended - started)

    def _round_trips(self, cell: Cell, address: str) -> list[float]:
        with self._process(cell, Operation.SERVE, address) as server:
            server.wait_ready()
            server.go()
            with self._process(cell, Operation.ASK, address) as client:
                client.wait_ready()
                client.go()
                asked = client.lines()[-1]
            # The last message of a queue without results may still be on its way.
            time.sleep(0 if asked["answered"] else ARRIVAL_S)
            server.kill()
            seen = {line["saw"]: float(line["at"]) for line in server.lines()}
        arrived = asked["answered"] or [seen[number] for number in range(cell.count) if number in seen]
        if len(arrived) != cell.count:
            raise ContenderFailed(f"{cell.entry.name}: {len(arrived)} of {cell.count} requests arrived")
        return [end - start for start, end in zip(asked["sent"], arrived, strict=True)]

    def _process(self, cell: Cell, operation: Operation, address: str) -> ContenderProcess:
        order = Order(operation, address, cell.setting.synchronous, cell.count, cell.batch)
        return ContenderProcess(self._interpreter(cell.entry), cell.entry.module, order)


def _check(cell: Cell, reports: list[dict[str, object]]) -> None:
    """A contender that loses, repeats or relaxes anything has no rate."""
    done = sum(int(str(report["count"])) for report in reports)
    if done != cell.count:
        raise ContenderFailed(f"{cell.entry.name}: did {done} messages, not {cell.count}")
    # The process that ends first may still see what the other has in hand.
    left = min(int(str(report["waiting"])) for report in reports)
    expected = 0 if cell.operation == Operation.DRAIN else cell.count
    if left != expected:
        raise ContenderFailed(f"{cell.entry.name}: {left} messages are waiting, not {expected}")
    for report in reports:
        if report["durability"] != cell.setting.reported:
            raise ContenderFailed(
                f"{cell.entry.name}: ran with durability {report['durability']}, not {cell.setting.reported}"
            )
