"""Spark's own start: a session with the settings and jars of a flow, and its first job, which has nothing to do."""

from __future__ import annotations

from bench.flow.contenders.turn import wait_for_start
from bench.flow.settings import MASTER, MEMORY
from towpath.settings import SparkSettings
from towpath.spark.session import build_session


def main() -> None:
    session = build_session(SparkSettings(master=MASTER, memory=MEMORY), connector=True)
    session.range(0).count()
    wait_for_start()
    session.stop()


if __name__ == "__main__":
    main()
