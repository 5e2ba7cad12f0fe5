"""The pages about policies and lanes, as a reader would follow them: programs run, and commands work."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import CommandLine
from tests.support.sent import Sent
from tests.unit.test_docs import DOCS, examples

from towpath.flow.stage.store import StageStore
from towpath.runtime import Runtime

POLICIES = DOCS / "how-to" / "error-policies.md"
LANES = DOCS / "how-to" / "replay-lanes.md"


@pytest.fixture
def sent(
    make_runtime: Callable[..., Runtime], tmp_path: Path, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Sent:
    monkeypatch.chdir(tmp_path)
    log = f"sqlite:///{tmp_path}/log.db"
    monkeypatch.setenv("TOWPATH_LOG__URL", log)
    made = Sent.on(make_runtime(log={"url": log}), "shop")
    made.make_topics()
    with made.runtime.database.transaction() as tx:
        StageStore(made.runtime.database).ensure(tx, "shop", "main", {})
    return made


def follow(page: Path, command: CommandLine) -> str:
    said = ""
    for line in re.findall(r"^\$ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE):
        program, *words = shlex.split(line)
        assert program == "towpath"
        said += command.ok(*words).out
    return said


def test_policies(sent: Sent, command: CommandLine) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for line, block in examples(POLICIES):
        exec(compile("\n" * line + block, POLICIES.name, "exec", dont_inherit=True), namespace)
    flow = namespace["flow"]
    sent.runtime.policies.declare(flow.name, None, flow.rules)
    [toml] = re.findall(r"^```toml\n(.*?)^```$", POLICIES.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    Path("rules.toml").write_text(toml, encoding="utf-8")
    sent.make(2)
    said = follow(POLICIES, command)
    assert "shop/operator/new/1" in said
    assert "1m, 2m, 4m, 8m, 16m, 32m" in said
    assert "version 3 " in said
    assert [rule["policy"] for rule in sent.runtime.policies.current("shop")[0].stored["policies"]] == [
        "repeat",
        "repeat_after",
    ]


def test_lanes(sent: Sent, command: CommandLine) -> None:
    sent.replay(sent.make(2), 300)
    sent.replay(sent.make(3), 3600)
    sent.run_relay()
    said = follow(LANES, command)
    assert "2 records of shop/0" in said
    assert sent.states() == {"waiting": 2, "open": 3}
    sent.run_replayer()
    assert sent.states() == {"replaying": 2, "open": 3}
