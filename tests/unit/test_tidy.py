"""The house rules that scripts/tidy.py checks, on small houses that break one each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from scripts import tidy

LONG = "VALUE = 1\n" * tidy.LONE_LINES


def check(folder: Path, files: Mapping[str, str], exceptions: Mapping[str, Any] | None = None) -> list[str]:
    for name, text in files.items():
        path = folder / tidy.PACKAGE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
        if path.name == "__init__.py":
            path.with_name("README.md").touch()
    return tidy.problems(tidy.read_modules(folder), exceptions or {})


def test_a_tidy_house_has_no_problems(tmp_path: Path) -> None:
    files = {
        "__init__.py": "",
        "queue/__init__.py": "",
        "queue/model.py": "class Message: ...",
        "queue/inbox.py": "from towpath.queue import model\n" + LONG,
        "queue/main.py": 'from towpath.queue.inbox import VALUE\nif __name__ == "__main__":\n    print(VALUE)\n',
    }
    assert check(tmp_path, files) == []


@pytest.mark.parametrize(
    ("name", "text", "rule", "subject"),
    [
        ("log/large.py", "VALUE = 1\n" * (tidy.MOST_LINES + 1), "large_modules", "log/large.py"),
        ("log/lonely.py", "VALUE = 1\n", "small_modules", "log/lonely.py"),
        ("log/taking.py", LONG, "participles", "log/taking.py"),
        ("log/second.py", "class Message: ...\n" + LONG, "doubled_classes", "Message"),
    ],
)
def test_each_rule_finds_what_breaks_it(tmp_path: Path, name: str, text: str, rule: str, subject: str) -> None:
    files = {"__init__.py": "", "log/__init__.py": "", "log/model.py": "class Message: ...\n", name: text}
    [problem] = check(tmp_path, files)
    assert problem.startswith(f"{subject}: ")
    assert check(tmp_path, files, {rule: {subject: "a reason"}}) == []


def test_what_only_one_module_imports_lives_there_unless_it_is_long(tmp_path: Path) -> None:
    user = "def late():\n    from towpath.log.part import VALUE\n" + LONG
    files = {"__init__.py": "", "log/__init__.py": "", "log/part.py": "VALUE = 1\n", "log/user.py": user}
    [problem] = check(tmp_path, files)
    assert "only towpath.log.user imports" in problem
    assert check(tmp_path, {"log/part.py": LONG}) == []
    other = "NEEDED = ('towpath.log.part',)\n" + LONG
    assert check(tmp_path, {"log/part.py": "VALUE = 1\n", "log/other.py": other}) == []


def test_a_folder_has_a_sign(tmp_path: Path) -> None:
    files = {"__init__.py": "", "log/__init__.py": ""}
    assert check(tmp_path, files) == []
    (tmp_path / tidy.PACKAGE / "log" / "README.md").unlink()
    [problem] = tidy.problems(tidy.read_modules(tmp_path), {})
    assert problem.startswith("log/__init__.py: ")


def test_a_folder_holds_so_many_modules(tmp_path: Path) -> None:
    files = {f"log/part_{number}.py": LONG for number in range(tidy.MOST_MODULES + 1)}
    [problem] = check(tmp_path, {"__init__.py": "", "log/__init__.py": "", **files})
    assert problem.startswith("log: ")


def test_calls_with_many_positional_parameters_only_become_fewer(tmp_path: Path) -> None:
    text = """
        @app.command()
        def command(a, b, c, d, e): ...
        def plain(a, b, c, d, *, e): ...
        class Store:
            def write(self, a, b, c, d): ...
            def crowded(self, a, b, c, d, e): ...
    """
    files = {"__init__.py": "", "log/__init__.py": "", "log/store.py": text}
    assert len(check(tmp_path, files)) == 1
    assert check(tmp_path, files, {"crowded_calls": {"log": 1}}) == []
    [problem] = check(tmp_path, files, {"crowded_calls": {"log": 2}})
    assert "lower" in problem


def test_an_exception_that_is_not_needed_is_a_problem(tmp_path: Path) -> None:
    [problem] = check(tmp_path, {"__init__.py": ""}, {"participles": {"log/taking.py": "it was there once"}})
    assert problem.startswith("log/taking.py: ")
