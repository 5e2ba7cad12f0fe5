"""From exceptions of Python, Towpath and workers to codes; those of Spark are provoked in test_flow_classify_spark."""

from __future__ import annotations

import errno
import http.client
import re
import socket
import ssl
from pathlib import Path

import pytest
import urllib3
from hypothesis import given
from hypothesis import strategies as st
from tests.support.sweep import sweep

from towpath import errors
from towpath.flow.failures import Action, ErrorCode, FaultReport, decode_fault, encode_fault
from towpath.flow.stage import StageState
from towpath.flow.stage.classifier import Classified, classify, is_step_failure, is_worker_death

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "error-codes.md"
NONCE = "0123456789abcdef"

BY_KIND: list[tuple[BaseException, int]] = [
    (errors.LogUnavailable("away"), 1),
    (errors.PartlyAppended([0], [], 2, "cut"), 1),
    (errors.TransactionUnknown("cut"), 1),
    (errors.UnknownTopic("clicks"), 2),
    (errors.TopicReplaced("clicks", "a", None), 2),
    (errors.TopicDeleted("clicks", "a"), 2),
    (errors.UnknownPartition("clicks", 9, 4), 3),
    (errors.BadRecord("a record of 9 bytes", is_too_large=True), 4),
    (errors.BadRecord("the key of a record is bytes"), 0),
    (errors.TopicReplaced("clicks", "a", "b"), 5),
    (errors.OffsetOutOfRange("clicks", 0, 3, 7, 9), 5),
    (errors.DatabaseUnavailable("locked"), 6),
    (errors.CommitUnknown("cut"), 6),
    (errors.SchemaTooNew("newer"), 0),
    (errors.ProducerFenced("p"), 0),
    (errors.SinkError(10, "views", "away"), 10),
    (errors.SinkError(11, "views", "503"), 11),
    (errors.SinkError(13, "views", "403"), 13),
    (KeyError("x"), 0),
    (MemoryError(), 0),
    (OSError(errno.ENOSPC, "no space left on device"), 0),
]


@sweep(("error", "code"), BY_KIND)
def test_by_kind(error: BaseException, code: int) -> None:
    for state in StageState:
        assert classify(error, state).code == code


NETWORK: list[BaseException] = [
    ConnectionRefusedError("no"),
    ConnectionResetError("cut"),
    BrokenPipeError("cut"),
    TimeoutError("slow"),
    socket.gaierror(-2, "unknown host"),
    ssl.SSLCertVerificationError("bad certificate"),
    OSError(errno.EHOSTUNREACH, "no route"),
    urllib3.exceptions.ProtocolError("cut"),
    urllib3.exceptions.ReadTimeoutError(urllib3.HTTPConnectionPool("h"), "/", "slow"),
    http.client.IncompleteRead(b""),
]


@pytest.mark.parametrize("error", NETWORK, ids=lambda each: type(each).__name__)
def test_the_network_is_the_sink_while_loading(error: BaseException) -> None:
    for state in StageState:
        assert classify(error, state).code == (10 if state is StageState.LOAD else 6)


def test_what_it_was_raised_from_counts() -> None:
    try:
        try:
            raise errors.LogUnavailable("the broker is away")
        except errors.LogUnavailable as cause:
            raise RuntimeError("could not go on") from cause
    except RuntimeError as error:
        found = classify(error, StageState.EXTRACT)
    assert (found.code, found.message) == (1, "the broker is away")
    one, other = RuntimeError("a"), RuntimeError("b")
    one.__cause__, other.__cause__ = other, one  # a circle
    assert classify(one, StageState.EXTRACT).code == 0


def test_a_sink_says_which_it_is() -> None:
    assert classify(errors.SinkError(11, "views", "broken"), StageState.LOAD) == Classified(
        ErrorCode.SINK_FAILED, "views", "views: broken", "views"
    )


def test_messages_are_bounded_and_never_empty() -> None:
    assert len(classify(ValueError("x" * 10**6), StageState.LOAD).message) <= 1_000
    assert classify(ValueError(), StageState.LOAD).message == "ValueError"


def test_what_is_not_of_spark_is_neither_a_step_nor_a_worker() -> None:
    assert not is_step_failure(ValueError("[DIVIDE_BY_ZERO] SQLSTATE: 22012"))
    assert not is_worker_death(RuntimeError("Python worker exited unexpectedly (crashed)"))


# Faults of workers

TEXT = 'ValueError: bad\n"quoted" ü \x00 \ud800'


def test_a_fault_comes_through() -> None:
    line = encode_fault(NONCE, 11, "label", "views", TEXT)
    assert "\n" not in line
    assert line.isascii()
    fault = FaultReport(ErrorCode.SINK_FAILED, "label", "views", TEXT)
    assert decode_fault(line, NONCE) == fault
    assert decode_fault(f"Traceback …\nx.WorkerFault: {line}\n SQLSTATE: 38000\n{line}", NONCE) == fault
    found = classify(RuntimeError(f"x: {line}"), StageState.LOAD, NONCE)
    assert found == Classified(ErrorCode.SINK_FAILED, "label", TEXT, "views")


def test_only_the_right_nonce_counts() -> None:
    forged = encode_fault("f" * 16, 1, "s", "t", "let the stage wait for ever")
    real = encode_fault(NONCE, 11, "s", "t", f"a record said: {forged}")
    for text in (forged, f"towpath-fault {{}} {forged}", 'towpath-fault  {"code": 1}', "towpath-fault"):
        assert decode_fault(text, NONCE) is None
        assert classify(RuntimeError(text), StageState.LOAD, NONCE).code == 0
    assert decode_fault(f"{forged}\n{real}\n{forged}", NONCE) == decode_fault(real, NONCE)
    assert classify(RuntimeError(real), StageState.LOAD).code == 0  # nobody gave a nonce


@pytest.mark.parametrize("nonce", ["", "short", "has a space in it", "{"])
def test_a_nonce_that_is_none(nonce: str) -> None:
    with pytest.raises(ValueError, match="nonce"):
        encode_fault(nonce, 1, "", "", "")
    assert decode_fault(f'towpath-fault {nonce} {{"code": 1}}', nonce) is None


def test_of_a_line_that_was_cut_off_the_code_is_left() -> None:
    line = encode_fault(NONCE, 13, "label", "views", "x" * 5_000)
    assert len(line) < 2_000
    for length in range(len(line)):
        found = decode_fault(line[:length], NONCE)
        assert found in (None, FaultReport(ErrorCode.SINK_REFUSED, "", "", ""))
    assert decode_fault(line[:-1], NONCE) is not None
    assert decode_fault(f"{line[:60]}\n{line}", NONCE) == decode_fault(line, NONCE)


@given(st.text(), st.text(), st.text())
def test_whatever_is_said_comes_through(step: str, target: str, message: str) -> None:
    found = decode_fault(f"a {encode_fault(NONCE, 9, step, target, message)} b", NONCE)
    assert found is not None
    assert found.code is ErrorCode.TRANSFORM_FAILED
    assert len(message) > 1_000 or found.message == message


@given(st.text(alphabet='towpath-faul 0123456789abcdef{}":,code\n'))
def test_no_text_breaks_the_reader(text: str) -> None:
    decode_fault(text, NONCE)
    decode_fault(f"towpath-fault {NONCE} {text}", NONCE)


@pytest.mark.parametrize("code", ["14", "99999999999999999999", "-1", '"1"', "null"])
def test_a_code_that_is_none_is_no_fault(code: str) -> None:
    line = f'towpath-fault {NONCE} {{"code": {code}, "step": "", "target": "", "message": ""}}'
    assert decode_fault(line, NONCE) is None


# What is written about it


def test_the_page_lists_every_code_with_its_action() -> None:
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|.*\| (\w+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [(str(code.value), code.name, code.action.value) for code in ErrorCode]


def test_the_page_explains_every_action() -> None:
    text = PAGE.read_text(encoding="utf-8").split("| action | what the stage does |")[1].split("\n\n")[0]
    assert re.findall(r"^\| (\w+) \|", text, re.MULTILINE) == [action.value for action in Action]
