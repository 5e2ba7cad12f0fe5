"""Sends records and starts actors all the while, and remembers what was taken."""

from __future__ import annotations

import json
import random
import threading
import time
from dataclasses import dataclass, field

from soak.up.plan import Plan
from soak.up.work import BAD, GOOD, LATE, LATE_S, SOURCE, Step, Walk
from towpath.log import NewRecord
from towpath.runtime import Runtime

SHARES = {GOOD: 0.8, LATE: 0.15, BAD: 0.05}
ROUND_S = 0.5
PARTITIONS = 2


@dataclass
class Sender:
    """One thread. A send that fails ends it: the database and the log are not among what is killed."""

    runtime: Runtime
    plan: Plan
    kinds: dict[int, str] = field(default_factory=dict)  # of the records that were taken
    runs: int = 0
    trouble: str = ""
    _thread: threading.Thread | None = None
    _stopping: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        self.runtime.log.create_topic(SOURCE, PARTITIONS)
        self._thread = threading.Thread(target=self._work, name="sender", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        began, draw = time.monotonic(), random.Random(self.plan.seed)
        try:
            while not self._stopping.wait(ROUND_S):
                spent_s = time.monotonic() - began
                self._send(int(spent_s * self.plan.records_per_s), draw)
                self._begin(int(spent_s * self.plan.runs_per_s))
        except Exception as error:
            self.trouble = f"the sender failed: {error!r}"

    def _send(self, until: int, draw: random.Random) -> None:
        first = len(self.kinds)
        kinds = draw.choices(list(SHARES), list(SHARES.values()), k=max(0, until - first))
        numbered = list(enumerate(kinds, first))
        if numbered:
            self.runtime.log.append(SOURCE, [NewRecord(_document(n, kind), b"%d" % n) for n, kind in numbered])
            self.kinds |= dict(numbered)

    def _begin(self, until: int) -> None:
        while self.runs < until:
            self.runtime.actors.start(Walk, Step(self.runs), instance=f"n{self.runs}")
            self.runs += 1


def _document(number: int, kind: str) -> bytes:
    return json.dumps({"n": number, "kind": kind, "until": time.time() + LATE_S}).encode()
