"""The options with which tests start Java."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from towpath.spark.java import find_java
from towpath.testing import quick_java
from towpath.testing.quick_java import quicken_spark


def test_what_the_user_has_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dmine=1")
    quicken_spark()
    assert os.environ["SPARK_SUBMIT_OPTS"] == "-Dmine=1"


def test_java_knows_the_options_and_passes_over_an_archive_that_does_not_fit(tmp_path: Path) -> None:
    """Nothing is said about it: what Spark prints is looked at by other tests."""
    archive = tmp_path / "other.jsa"
    archive.write_bytes(b"of another Java" * 1_000)
    options = [each.replace(str(quick_java.ARCHIVE), str(archive)) for each in quick_java.FROM_ARCHIVE.split()]
    command = [str(find_java().program), quick_java.FIRST_COMPILER_ONLY, *options, "-XX:+PrintFlagsFinal", "-version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "[warning]" not in done.stdout + done.stderr
    [level] = [line for line in done.stdout.splitlines() if " TieredStopAtLevel " in line]
    assert level.split()[3] == "1"
