"""Which errors are of one cause, and what the judge and the desk have in common."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from towpath.desk.groups.model import Fingerprint, frames_of, frames_only
from towpath.flow.failures import ErrorCode, RecordFailure

FAILURE = RecordFailure(ErrorCode.NOT_VALID, "priced", "ValueError", "no city 'Ulm' for order 17")


def fail(line: int = 7) -> RecordFailure:
    try:
        raise ValueError(f"no city 'x' for order {line}")
    except ValueError as error:
        return RecordFailure.of(ErrorCode.TRANSFORM_FAILED, "priced", error)


def test_particulars_make_no_difference() -> None:
    others = ("no city 'Bonn' for order 4711", 'no city "x" for order 0', "no city 'deadbeef01' for order 2")
    assert {Fingerprint.of(FAILURE._replace(message=each)).text for each in others} == {Fingerprint.of(FAILURE).text}
    assert Fingerprint.of(FAILURE).title == "no city # for order #"


def test_everything_else_does() -> None:
    others = [
        FAILURE,
        FAILURE._replace(code=ErrorCode.TRANSFORM_FAILED),
        FAILURE._replace(step="shipped"),
        FAILURE._replace(exception="KeyError"),
        FAILURE._replace(message="no street 'x' for order 1"),
        FAILURE._replace(trace='  File "/app/a.py", line 1, in price\n    x'),
        FAILURE._replace(trace='  File "/app/a.py", line 1, in weigh\n    x'),
    ]
    texts = {Fingerprint.of(each).text for each in others} | {Fingerprint.of(FAILURE, "gap").text}
    assert len(texts) == len(others) + 1


def test_the_algorithm_is_part_of_it_and_what_it_is_made_of_is_told() -> None:
    found = Fingerprint.of(FAILURE)
    assert found.text.startswith("1:")
    assert found.made_of == {
        "algorithm": 1,
        "kind": "error",
        "code": 8,
        "step": "priced",
        "exception": "ValueError",
        "message": "no city # for order #",
        "frames": [],
    }


def test_it_never_changes() -> None:
    """Cases that are there would not be found again: a change needs another number."""
    trace = 'Traceback:\n  File "/app/shop/orders.py", line 7, in price\n    raise ValueError\nValueError: no'
    assert Fingerprint.of(FAILURE).text == "1:22f4d5068359a91042f81a6ef4c07324"
    assert Fingerprint.of(FAILURE._replace(trace=trace)).text == "1:faa68bae61fd7a8f0a10bfd197f37a38"


def test_lines_and_what_is_installed_make_no_difference() -> None:
    own = '  File "/app/orders.py", line {}, in price\n    raise\n'
    foreign = '  File "/usr/lib/python3.11/json/decoder.py", line 3, in decode\n    x\n'
    installed = '  File "/venv/lib/python3.11/site-packages/pandas/core.py", line 3, in get\n    x\n'
    first = frames_of(own.format(7) + foreign)
    assert first == frames_of(installed + own.format(99)) == ("orders.py:price",)


def test_only_the_innermost_frames_count() -> None:
    trace = "".join(f'  File "/app/a.py", line 1, in f{at}\n    x\n' for at in range(9))
    assert frames_of(trace) == tuple(f"a.py:f{at}" for at in range(4, 9))


def test_a_trace_is_kept_without_its_message() -> None:
    """Or a million errors of one cause would have a million traces."""
    first, second = fail(1), fail(2)
    assert first.trace != second.trace
    assert frames_only(first.trace) == frames_only(second.trace)
    assert frames_only(first.trace).rstrip().endswith('order {line}")')
    assert frames_only("ValueError: no frames at all") == ""


@given(st.text(max_size=200))
def test_the_judge_and_the_desk_leave_out_the_same(message: str) -> None:
    failure = FAILURE._replace(message=message)
    assert failure.fingerprint.endswith("/" + Fingerprint.of(failure).made_of["message"])
