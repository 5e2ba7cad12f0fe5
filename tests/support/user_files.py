"""Files of a user's, written by a test and imported as Towpath does it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Write = Callable[[str, str], Path]


@pytest.fixture
def imports_as_before() -> Iterator[None]:
    """What a file imports stays in the process; here it goes with the test."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if not name.startswith(("towpath.", "pyarrow", "orjson", "jsonschema_rs", "msgspec")):
            del sys.modules[name]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a file below the working directory."""
    monkeypatch.chdir(tmp_path)

    def one(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return one
