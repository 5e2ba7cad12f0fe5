"""The page about sending and receiving, as a reader would follow it: a gateway, a flow on Spark, a client."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.commands import TOWPATH
from tests.unit.test_docs import DOCS, examples

from towpath.settings import load
from towpath.stack.daemon import free_port
from towpath.testing.clock import wait_until

PAGE = DOCS / "how-to" / "send-and-receive.md"
TEXT = PAGE.read_text(encoding="utf-8")
IN_TERMINALS = ("towpath gateway run", "towpath run readings.py:flow")
TIMEOUT_S = 200


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


@contextmanager
def in_a_terminal(command: str, home: Path, variables: dict[str, str]) -> Iterator[None]:
    words = [*TOWPATH, *command.split()[1:]]
    with (home / f"{words[3]}.log").open("wb") as log:
        process = subprocess.Popen(words, cwd=home, env=variables, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            process.wait(60)


@pytest.mark.part("guides")
@pytest.mark.timeout(400)  # waits for Spark
def test_the_page(tmp_path: Path) -> None:
    port = free_port()
    flow, program = (block for _, block in examples(PAGE))
    stream, rule = blocks("toml")
    (tmp_path / "readings.py").write_text(flow, encoding="utf-8")
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    more = f'[api]\nport = {port}\n\n[spark]\nmaster = "local[2]"\n\n[flow]\ntrigger_s = 0.2\n'
    (tmp_path / "towpath.toml").write_text(f"{stream}\n{rule}\n{more}", encoding="utf-8")
    assert load(file=tmp_path / "towpath.toml").gateway.expiry[0].approved_by == "ada"
    variables = {name: value for name, value in os.environ.items() if not name.startswith("TOWPATH_")}
    variables["PATH"] = f"{Path(sys.executable).parent}:{variables['PATH']}"
    commands = [line.removeprefix("$ ") for block in blocks("console") for line in block.splitlines()]
    assert [command for command in commands if command in IN_TERMINALS] == list(IN_TERMINALS)
    first = commands.index(IN_TERMINALS[0])
    run(commands[:first], tmp_path, variables)
    with in_a_terminal(IN_TERMINALS[0], tmp_path, variables), in_a_terminal(IN_TERMINALS[1], tmp_path, variables):
        wait_until(lambda: "listening" in (tmp_path / "gateway.log").read_text(), 60, "the gateway")
        rest = [command.replace("8470", str(port)) for command in commands[first + len(IN_TERMINALS) :]]
        out = run([*rest, "python program.py"], tmp_path, variables)
    [results] = blocks("text")
    assert results in out
    [last] = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    assert last["next"] is None


def run(commands: list[str], home: Path, variables: dict[str, str]) -> str:
    script = "\n".join(["set -euo pipefail", *commands])
    options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": TIMEOUT_S, "check": False}
    done = subprocess.run(["bash", "-c", script], cwd=home, env=variables, **options)
    logs = "\n".join(path.read_text()[-3000:] for path in home.glob("*.log"))
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{logs}"
    return str(done.stdout)
