"""A process that hosts actors with schedules until all is done: `python -m tests.recovery.scheduling '{…}'`."""

from __future__ import annotations

from tests.support.actors import Counter, Parent

import towpath
from towpath.actors.schedules.model import ScheduleOutcome
from towpath.core.logs import configure
from towpath.runtime import Runtime
from towpath.settings import LoggingSettings
from towpath.testing.clock import wait_until
from towpath.testing.processes import leave_with_parent, order


def has_run(runtime: Runtime) -> bool:
    return all(each.outcome is ScheduleOutcome.ENDED for each in runtime.actors.schedules.list())


def is_clean(runtime: Runtime) -> bool:
    return all(each.parent is None for each in runtime.actors.instances())


def main() -> None:
    leave_with_parent()
    configure(LoggingSettings(level="warning"))
    told = order()
    is_over = {"run": has_run, "cleaned": is_clean}[told["until"]]
    with towpath.connect(**told["sections"]) as runtime:
        runtime.actors.register(Counter, Parent)
        host = runtime.actors.host()
        host.start()
        try:
            wait_until(lambda: is_over(runtime), timeout_s=60)
        finally:
            host.stop()


if __name__ == "__main__":
    main()
