"""The examples of the how-tos about flows run as they stand there: in one process with one Spark of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.test_docs import DOCS, examples

PAGES = ["testing-a-flow.md", "expectations.md", "kafka-to-elasticsearch.md"]


@pytest.mark.part("guides")
@pytest.mark.timeout(240)  # waits for Spark to start
def test_examples_run(tmp_path: Path) -> None:
    program = []
    for page in PAGES:
        for line, block in examples(DOCS / "how-to" / page):
            program.append(f"exec(compile({chr(10) * line + block!r}, {page!r}, 'exec'), globals())")
    path = tmp_path / "examples.py"
    path.write_text("\n".join(program))
    done = subprocess.run(
        [sys.executable, str(path)], cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
