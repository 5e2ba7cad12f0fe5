"""The tutorial "from error to resolved" as a newcomer types it, on the embedded default."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.acceptance.test_cli_run import COMMAND, paste
from tests.unit.test_docs import DOCS

pytestmark = pytest.mark.timeout(600)  # Spark starts twice

TUTORIAL = DOCS / "tutorial" / "error-to-resolved.md"
SHOWN = re.compile(r"^\$ [^\n]*\n((?:[^$`][^\n]*\n)+)", re.MULTILINE)
REFUSED = "just a try"


@pytest.mark.part("guides")
def test_the_tutorial(tmp_path: Path) -> None:
    text = TUTORIAL.read_text(encoding="utf-8")
    script = [f"{line} 2>&1 || test $? = 1" if REFUSED in line else line for line in COMMAND.findall(text)]
    said = [line.split() for line in paste(script, tmp_path).splitlines()]
    shown = [line.split() for block in SHOWN.findall(text) for line in block.splitlines() if line.strip()]
    # The page leaves out columns at the right.
    assert [line for line in shown if not any(out[: len(line)] == line for out in said)] == []
    assert len(shown) > 20
