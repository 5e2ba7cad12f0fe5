"""The pages about access and notifications, as a reader would follow them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.test_docs import DOCS, examples

from towpath.settings import load

ACCESS, NOTIFICATIONS = DOCS / "how-to" / "access.md", DOCS / "how-to" / "notifications.md"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
TIMEOUT_S = 120


def run(page: Path) -> None:
    namespace: dict[str, object] = {"__name__": "__main__"}
    blocks = examples(page)
    assert blocks
    for line, block in blocks:
        exec(compile("\n" * line + block, page.name, "exec", dont_inherit=True), namespace)


def commands(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return [line.removeprefix("$ ") for block in BLOCK.findall(text) for line in block.splitlines()]


@pytest.mark.part("guides")
def test_access(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = ["set -euo pipefail", *commands(ACCESS)]
    assert len(script) > 9
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TOWPATH_")}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    options = {"capture_output": True, "text": True, "timeout": TIMEOUT_S, "check": False}
    done = subprocess.run(["bash", "-c", "\n".join(script)], cwd=tmp_path, env=environment, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr
    assert "deploy robot" in done.stdout
    run(ACCESS)


def test_notifications(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(NOTIFICATIONS)


def test_the_settings_of_the_page_can_be_used(tmp_path: Path) -> None:
    [block] = re.findall(r"^```toml\n(.*?)^```$", NOTIFICATIONS.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    file = tmp_path / "towpath.toml"
    file.write_text(block, encoding="utf-8")
    notify = load(file=file).notify
    assert [hook.name for hook in notify.webhooks] == ["ops"]
    assert [mail.name for mail in notify.emails] == ["team"]
