"""A process that runs walkers until they have come to rest: `python -m tests.recovery.actors.hosting '{…}'`."""

from __future__ import annotations

from pathlib import Path

from tests.recovery.actors.walkers import WALKERS, Walker

import towpath
from towpath.actors.instance import LIVE
from towpath.core.logs import configure
from towpath.queue import MessageState
from towpath.settings import LoggingSettings
from towpath.testing.clock import wait_until
from towpath.testing.processes import leave_with_parent, order
from towpath.testing.queue_ledger import Journal


def main() -> None:
    leave_with_parent()
    configure(LoggingSettings(level="warning"))
    told = order()
    Walker.journal = Journal(Path(told["journal"]))
    with towpath.connect(**told["sections"]) as runtime:
        runtime.actors.register(*WALKERS.values())

        def is_over() -> bool:
            arrived = [m for m in runtime.queue.browser().page(limit=100) if m.inbox.startswith("actor:")]
            instances = runtime.actors.instances()
            is_quiet = all(m.state is not MessageState.NEW for m in arrived)
            return is_quiet and bool(instances) and all(each.phase not in LIVE for each in instances)

        host = runtime.actors.host()
        host.start()
        try:
            wait_until(is_over, timeout_s=60)
        finally:
            host.stop()


if __name__ == "__main__":
    main()
