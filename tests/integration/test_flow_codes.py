"""No error code goes without a test that brings it about, nor without its line in the reference."""

from __future__ import annotations

import re
from pathlib import Path

from tests.integration import test_flow_codes_data, test_flow_codes_index, test_flow_codes_source
from tests.support.produced import produced_by

from towpath.flow.failures import Action, ErrorCode

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "error-codes.md"
MODULES = (test_flow_codes_source, test_flow_codes_data, test_flow_codes_index)
IN_BOTH = {ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.SINK_REFUSED}
LINE = re.compile(r"^\| (\d+) \| (.*) \|$", re.MULTILINE)


def section(title: str) -> str:
    """The text of the page from one heading to the next."""
    text = PAGE.read_text(encoding="utf-8")
    return re.split(r"^#+ ", text[text.index(f"# {title}\n") + 2 :], maxsplit=1, flags=re.MULTILINE)[0]


def test_every_code_is_produced_by_its_real_cause() -> None:
    assert set().union(*map(produced_by, MODULES)) == set(ErrorCode)


def test_the_page_has_every_code_with_its_name_and_action() -> None:
    told = [(int(code), *cells.split(" | ")) for code, cells in LINE.findall(section("Error codes"))]
    assert [(code, name, action) for code, name, _, action in told] == [
        (code, f"`{code.name}`", code.action.value) for code in ErrorCode
    ]
    assert {action for _, _, _, action in told} == {action.value for action in Action}


def test_the_page_says_what_causes_every_code_and_where_it_shows() -> None:
    """What is laid on one record shows in the error topic, the rest in the state of the stage."""
    told = {int(code): cells.split(" | ")[-1] for code, cells in LINE.findall(section("What causes them"))}
    assert list(told) == list(ErrorCode)
    for code in ErrorCode:
        assert ("error topic" in told[code]) == (code.is_handled or code in IN_BOTH), code
