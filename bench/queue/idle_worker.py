"""What a started worker with an empty inbox costs."""

from __future__ import annotations

import os
import time
from pathlib import Path

from bench.queue.contenders.contract import Operation, Order
from bench.queue.field import Entry, Setting
from bench.queue.process import ContenderProcess
from bench.queue.stores import Stores

WATCH_S = 20.0
SETTLE_S = 2.0


def idle_core_share(stores: Stores, entry: Entry, setting: Setting, python: Path, watch_s: float = WATCH_S) -> float:
    """The part of one core that the worker's process uses while nothing happens."""
    address = stores.fresh(entry, 0)
    order = Order(Operation.SERVE, address, setting.synchronous, 0, 1)
    with ContenderProcess(python, entry.module, order) as worker:
        worker.wait_ready()
        worker.go()
        time.sleep(SETTLE_S)
        before = _cpu_s(worker.pid)
        time.sleep(watch_s)
        used = _cpu_s(worker.pid) - before
    stores.drop(entry, address)
    return used / watch_s


def _cpu_s(pid: int) -> float:
    # Fields 14 and 15 of the line, counted after the parenthesis that ends the program's name.
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
