"""A process that takes errors in, or deletes what is past its time: `python -m …acts '{…}'`."""

from __future__ import annotations

from tests.support.desk import intake_of, take_all

import towpath
from towpath.core.logs import configure
from towpath.desk.background import open_case_janitor
from towpath.runtime import Runtime
from towpath.settings import LoggingSettings
from towpath.testing.processes import leave_with_parent, order


def take(runtime: Runtime) -> None:
    intake = intake_of(runtime)
    intake._most = 2  # so that a handful of records passes a point more than once
    take_all(intake)


def clean(runtime: Runtime) -> None:
    janitor = open_case_janitor(runtime.settings, runtime.database, runtime.events, runtime.event_log)
    janitor.clean()
    janitor.sweep()


def main() -> None:
    leave_with_parent()
    configure(LoggingSettings(level="warning"))
    told = order()
    with towpath.connect(**told["sections"]) as runtime:
        {"take": take, "clean": clean}[told["act"]](runtime)


if __name__ == "__main__":
    main()
