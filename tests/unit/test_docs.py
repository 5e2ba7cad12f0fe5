"""The documents say what is true: examples run, links lead somewhere, every page can be found.

That reference pages repeat the code is a part of `make check`: `scripts/reference.py --check`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.support.sweep import sweep

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES_WITH_EXAMPLES = [
    ROOT / "README.md",
    # That one has only commands, which tests/acceptance runs.
    *sorted({*(DOCS / "tutorial").glob("*.md")} - {DOCS / "tutorial" / "error-to-resolved.md"}),
    DOCS / "how-to" / "keep-topics-in-sqlite.md",
]
ROOT_PAGES = sorted(ROOT.glob("*.md"))
EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]+)(?:#[^)]*)?\)")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def examples(page: Path) -> list[tuple[int, str]]:
    """The python blocks of a page with the line that each begins on."""
    text = page.read_text(encoding="utf-8")
    return [(text.count("\n", 0, found.start(1)), found[1]) for found in EXAMPLE.finditer(text)]


@pytest.mark.parametrize("page", PAGES_WITH_EXAMPLES, ids=name)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a page are one program, as a reader would type them one after the other."""
    monkeypatch.chdir(tmp_path)
    blocks = examples(page)
    assert blocks, f"{name(page)} has no python example"
    namespace: dict[str, object] = {"__name__": "__main__"}
    for line, block in blocks:
        exec(compile("\n" * line + block, name(page), "exec"), namespace)


def test_the_signs_of_the_architecture_page_point_at_modules() -> None:
    """The way of a record, the way of an error, and where to go to change something."""
    page = (DOCS / "explanation" / "architecture.md").read_text(encoding="utf-8")
    ways, _, after = page.partition("## The way of a record")[2].partition("## I want to change")
    places = re.findall(r"`([a-z_]+(?:/[a-z_]+)*(?:/|\.py))`", ways + after.partition("\n## ")[0])
    assert len(places) > 80
    assert [place for place in places if not (ROOT / "src" / "towpath" / place).exists()] == []


@sweep("page", ROOT_PAGES)
def test_links_lead_to_files(page: Path) -> None:
    links = LINK.findall(page.read_text(encoding="utf-8"))
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing
