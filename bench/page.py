"""The page of the documentation with the figures. Each benchmark has a part of it to itself, below a mark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "benchmarks.md"
_MARK = "<!-- What follows is written by `"


def write_section(page: Path, command: str, lines: Sequence[str]) -> None:
    """Write what stands below the mark of `command`; what people wrote above, and other marks with theirs, stay."""
    mark = f"{_MARK}{command} ARGS=--write`. -->"
    text = page.read_text() if page.exists() else "# Benchmarks"
    before, _, old = text.partition(mark)
    others = old[old.index(_MARK) :] if _MARK in old else ""
    parts = [before.rstrip(), mark, "\n".join(lines).strip(), others.strip()]
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n\n".join(filter(None, parts)) + "\n")
