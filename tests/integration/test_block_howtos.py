"""The pages about block rules, complaints and cleaning up, as a reader would follow them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.test_docs import DOCS

from towpath.settings import load

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
TIMEOUT_S = 240


@pytest.mark.part("guides")
@pytest.mark.parametrize(
    ("page", "told"),
    [
        ("block-records", "rule 1 does not count any more"),
        ("complaints", "settled as"),
        ("clean-up", "database: "),
    ],
)
def test_commands_of_the_page(page: str, told: str, tmp_path: Path) -> None:
    text = (DOCS / "how-to" / f"{page}.md").read_text(encoding="utf-8")
    lines = [line.removeprefix("$ ") for block in BLOCK.findall(text) for line in block.splitlines()]
    script = ["set -euo pipefail", "towpath schema upgrade", *lines]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TOWPATH_")}
    environment |= {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(tmp_path)}
    options = {"capture_output": True, "text": True, "timeout": TIMEOUT_S, "check": False}
    done = subprocess.run(["bash", "-c", "\n".join(script)], cwd=tmp_path, env=environment, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr
    assert told in done.stdout


def test_the_settings_of_the_page_can_be_used(tmp_path: Path) -> None:
    text = (DOCS / "how-to" / "complaints.md").read_text(encoding="utf-8")
    [block] = re.findall(r"^```toml\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    file = tmp_path / "towpath.toml"
    file.write_text(block, encoding="utf-8")
    assert load(file=file).complaints.public
