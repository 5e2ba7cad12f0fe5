"""The example of the how-to is a sink, and runs as it stands there."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests.unit.test_docs import DOCS, examples

PAGE = DOCS / "how-to" / "own-sink.md"


def test_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = ModuleType("own_sink")
    monkeypatch.setitem(sys.modules, "own_sink", module)  # pickle finds the class by its module
    for line, block in examples(PAGE):
        exec(compile("\n" * line + block, str(PAGE), "exec"), vars(module))
    sink = module.Letters("outbox", id="{number}")
    sink.check(None)
    assert isinstance(pickle.loads(pickle.dumps(sink)), module.Letters)  # noqa: S301 - our own
