"""Modules that are named in text, to be started with `python -m` or loaded by a worker, are there."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STARTED = re.compile(r"-m[\"',\s]+(towpath(?:\.\w+)+)")


def test_modules_that_are_started_by_name_are_there() -> None:
    files = [path for folder in ("src", "scripts", "docs") for path in (ROOT / folder).rglob("*") if path.is_file()]
    named = {
        (name, path.relative_to(ROOT).as_posix())
        for path in files
        if path.suffix != ".pyc"
        for name in STARTED.findall(path.read_text(encoding="utf-8", errors="replace"))
    }
    assert len(named) > 5
    assert sorted(place for place in named if find_spec(place[0]) is None) == []
