"""A process with a Spark that tries a task again when its worker has died: `local[2,4]`, four times in all.

python -m tests.recovery.delivery.retrying: an order a line on standard input, an answer a file.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.recovery.delivery.act import heard, told
from tests.recovery.delivery.armed_workers import ArmedWorkers
from tests.recovery.delivery.rig import Rig
from tests.recovery.delivery.shapes import BUILT
from tests.support.flows import World
from tests.support.logs import Place
from tests.support.spark import spark_settings

from towpath.core import crash
from towpath.flow.delivery.ids import Strategy
from towpath.settings import SparkSettings
from towpath.spark.session import build_session
from towpath.testing.clock import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]
MASTER = "local[2,4]"
START_S, RUN_S = 120, 120


class Retrying:
    """The process, as a test sees it."""

    def __init__(self, log: Path) -> None:
        self._log = log
        with log.open("wb") as written:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__], cwd=ROOT, stdin=subprocess.PIPE, stdout=written, stderr=written
            )

    def run(self, rig: Rig) -> bool:
        """Run the flow of a case there until idle. Whether a worker has died; the driver has to live on.

        Only at-most-once does not let Spark try again: the job fails, and the batch is to be given up.
        """
        once, answer = rig.world.home / "once", rig.world.home / "answer"
        order = {
            "home": str(rig.world.home),
            "log": rig.world.place.log,
            "database": rig.world.place.database,
            "shape": rig.case.shape.name,
            "strategy": rig.case.strategy,
            "target": told(rig.target),
            "other": told(rig.other),
            "crash_at": rig.case.crash_at,
            "once": str(once),
            "answer": str(answer),
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        wait_until(lambda: answer.exists() or self._process.poll() is not None, START_S + RUN_S, "an answer")
        assert answer.exists(), self._log.read_text()[-3000:]
        said = json.loads(answer.read_text())
        assert said["error"] == "", said
        assert not (said["job_failed"] and rig.case.strategy.may_repeat), "Spark did not try the task again"
        return once.exists()

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def main() -> None:
    spark = build_session(SparkSettings(**spark_settings(MASTER)), "towpath-retrying", connector=True)
    for line in sys.stdin:
        order = json.loads(line)
        error, job_failed = "", False
        try:
            _obey(spark, order)
        except crash.Crashed:  # told to the driver when a job has failed by the death of a worker
            job_failed = True
        except Exception as raised:
            error = repr(raised)
        aside = Path(order["answer"] + ".aside")
        aside.write_text(json.dumps({"error": error, "job_failed": job_failed}))
        aside.rename(order["answer"])
    spark.stop()


def _obey(spark: SparkSession, order: dict[str, Any]) -> None:
    shape = BUILT[order["shape"]]
    world = World(spark, Place("", order["log"], order["database"]), Path(order["home"]))
    crash.arm(ArmedWorkers(order["crash_at"], once=Path(order["once"]), victim=0))
    try:
        for _ in range(shape.stages):
            world.run(shape.build(Strategy(order["strategy"]), heard(order["target"]), heard(order["other"])))
    finally:
        crash.arm(None)
        world.close()


if __name__ == "__main__":
    main()
