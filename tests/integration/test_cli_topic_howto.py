"""The commands of the pages about topics, as a reader would paste them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from towpath.stack.kafka import KafkaServer

PAGES = Path(__file__).resolve().parents[2] / "docs" / "how-to"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
TIMEOUT_S = 160
ENDLESS = ("towpath topic tail ", "towpath stack up ")


def commands(page: str) -> list[str]:
    text = (PAGES / page).read_text(encoding="utf-8")
    lines = [line.removeprefix("$ ") for block in BLOCK.findall(text) for line in block.splitlines()]
    return [line for line in lines if not line.startswith(ENDLESS)]


def paste(script: list[str], directory: Path) -> str:
    """What a shell says that stops at the first failure."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TOWPATH_")}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    whole = ["set -euo pipefail", *script]
    done = subprocess.run(
        ["bash", "-c", "\n".join(whole)],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.part("guides")
def test_work_with_topics(tmp_path: Path) -> None:
    script = commands("work-with-topics.md")
    assert len(script) > 15
    out = paste(script, tmp_path)
    assert out.count(" 4 records ") >= 2


@pytest.mark.part("guides")
@pytest.mark.timeout(180)
def test_move_to_kafka(tmp_path: Path, kafka: KafkaServer) -> None:
    script = [line.replace("kafka://127.0.0.1:9092", kafka.url) for line in commands("move-to-kafka.md")]
    assert sum("topic copy" in line for line in script) == 3
    script[-1] = script[-1].replace("topic copy clicks", "topic copy clicks clicks-from-kafka")  # as the page says
    before = ["towpath schema upgrade", "towpath topic create clicks", "echo 1 | towpath topic send clicks"]
    after = [f"towpath topic delete clicks --yes --why test --log {kafka.url}"]
    out = paste([*before, *script, *after], tmp_path)
    assert f" 1 record to clicks of {kafka.url}" in out
    assert f" 0 records to clicks of {kafka.url}" in out
    assert " 1 record to clicks-from-kafka of " in out
