"""The processes that share the cases of a part of `make verify`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.verify.crew import Crew, Order

CASES = """
from pathlib import Path

def test_it(request):
    with Path(__file__).with_name("ran").open("a") as file:
        file.write(f"{request.node.number}\\n")
    assert request.node.number != 4
"""
# As those that are made from the description of an interface.
SIX_OF_ONE_NAME = """
import pytest

def pytest_pycollect_makeitem(collector, name, obj):
    if name == "test_it":
        cases = [pytest.Function.from_parent(collector, name=name, callobj=obj) for _ in range(6)]
        for number, case in enumerate(cases):
            case.number = number
        return cases
"""


def test_each_case_is_run_once_also_when_all_have_the_same_name(tmp_path: Path) -> None:
    (tmp_path / "test_cases.py").write_text(CASES)
    (tmp_path / "conftest.py").write_text(SIX_OF_ONE_NAME)
    crew = Crew(tmp_path / "home", Order([str(tmp_path / "test_cases.py")], processes=2, seed=1, most_cases=2))
    for _ in crew.run():
        pass
    assert Counter((tmp_path / "ran").read_text().split()) == dict.fromkeys("012345", 1)
    assert sorted(crew.done) == list(range(6))
    [failed] = crew.failed
    assert "assert 4 != 4" in failed.text
    assert crew.deaths == []
