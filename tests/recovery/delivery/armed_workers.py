"""Death for a worker alone. The driver may come by the same point before, as when it appends ticks to a topic."""

from __future__ import annotations

import os

from towpath.core.crash import Armed, CrashPoint


class ArmedWorkers(Armed):
    """Told to the driver, which passes it on and is spared itself."""

    def passed(self, point: CrashPoint) -> None:
        if os.getpid() != self._driver:
            super().passed(point)
