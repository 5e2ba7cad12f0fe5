"""The examples of the how-to run as they stand there."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.unit.test_docs import DOCS, examples

pytestmark = pytest.mark.timeout(300)  # the first test waits for Spark to start

PAGE = DOCS / "how-to" / "read-topics-with-spark.md"


@pytest.mark.part("guides")
def test_examples_run(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOWPATH_SPARK__MASTER", spark.sparkContext.master or "")  # a process has one session
    namespace: dict[str, object] = {"__name__": "__main__"}
    for line, block in examples(PAGE):
        exec(compile("\n" * line + block, str(PAGE), "exec"), namespace)
    namespace["runtime"].close()  # type: ignore[attr-defined]
