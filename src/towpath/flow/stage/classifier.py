"""From an exception to one of the fourteen codes.

Towpath's own errors carry what is needed. What a worker has to say goes through `encode_fault`. What fits nowhere is
code 0. What an exception of Spark's is about is found out without loading Spark: by the chain of its Java causes.

Texts of exceptions hold what was in the record, so they prove nothing. What counts here is what no record can write:
names of Java classes, the SQL states that Spark gives its errors, and the beginnings of messages that Spark makes.
"""

from __future__ import annotations

import errno
import re
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from towpath import errors
from towpath.flow.failures import ErrorCode, bounded, decode_fault
from towpath.flow.stage.states import StageState

_OWN: dict[type[BaseException], ErrorCode] = {
    errors.LogUnavailable: ErrorCode.LOG_UNAVAILABLE,
    errors.PartlyAppended: ErrorCode.LOG_UNAVAILABLE,
    errors.TransactionUnknown: ErrorCode.LOG_UNAVAILABLE,
    errors.UnknownTopic: ErrorCode.TOPIC_NOT_FOUND,
    errors.TopicDeleted: ErrorCode.TOPIC_NOT_FOUND,
    errors.TopicReplaced: ErrorCode.OFFSET_NOT_AVAILABLE,
    errors.UnknownPartition: ErrorCode.PARTITION_NOT_FOUND,
    errors.OffsetOutOfRange: ErrorCode.OFFSET_NOT_AVAILABLE,
    errors.DatabaseUnavailable: ErrorCode.NETWORK,
    errors.CommitUnknown: ErrorCode.NETWORK,
}
_BY_NAME = {kind.__name__: code for kind, code in _OWN.items()}

_NETWORK = (ConnectionError, TimeoutError, socket.gaierror, socket.herror, ssl.SSLError)
_NETWORK_ERRNOS = {errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ETIMEDOUT}
_NETWORK_NAMES = {
    "urllib3.exceptions.HTTPError",
    "http.client.HTTPException",
    "requests.exceptions.ConnectionError",
    "requests.exceptions.Timeout",
    "httpx.TransportError",
}

_KAFKA = "org.apache.kafka."
_JAVA: dict[str, ErrorCode] = {
    "org.apache.kafka.common.errors.UnknownTopicOrPartitionException": ErrorCode.TOPIC_NOT_FOUND,
    "org.apache.kafka.common.errors.UnknownTopicIdException": ErrorCode.TOPIC_NOT_FOUND,
    "org.apache.kafka.common.errors.OffsetOutOfRangeException": ErrorCode.OFFSET_NOT_AVAILABLE,
    "org.apache.kafka.clients.consumer.OffsetOutOfRangeException": ErrorCode.OFFSET_NOT_AVAILABLE,
    "org.apache.kafka.clients.consumer.NoOffsetForPartitionException": ErrorCode.OFFSET_NOT_AVAILABLE,
    "org.apache.spark.sql.kafka010.KafkaIllegalStateException": ErrorCode.OFFSET_NOT_AVAILABLE,
    "org.apache.kafka.common.errors.RecordTooLargeException": ErrorCode.RECORD_TOO_BIG,
    "java.net.ConnectException": ErrorCode.NETWORK,
    "java.net.SocketException": ErrorCode.NETWORK,
    "java.net.SocketTimeoutException": ErrorCode.NETWORK,
    "java.net.UnknownHostException": ErrorCode.NETWORK,
    "java.net.NoRouteToHostException": ErrorCode.NETWORK,
    "java.nio.channels.ClosedChannelException": ErrorCode.NETWORK,
    "javax.net.ssl.SSLException": ErrorCode.NETWORK,
}

# SQL states of errors that come of values: data, a user's function, `raise_error`.
_STEP_SQL_STATES = ("22", "38", "P0")
_STEP_CLASSES = {
    "java.lang.ArithmeticException",
    "java.lang.NumberFormatException",
    "java.lang.ArrayIndexOutOfBoundsException",
    "java.lang.StringIndexOutOfBoundsException",
    "java.lang.ClassCastException",
    "java.lang.IllegalArgumentException",
    "java.lang.NullPointerException",
    "java.time.DateTimeException",
    "scala.MatchError",
}

_FAILED_JOB = "Job aborted due to stage failure"
_DEAD_WORKER = "Python worker exited unexpectedly"
_WORKER_FAULT = re.compile(r"^[\w.]*WorkerFault: ", re.MULTILINE)
_OUT_OF_MEMORY = re.compile(r"^(numpy\.\w+\.\w*)?MemoryError\b|^pyarrow\.lib\.ArrowMemoryError\b", re.MULTILINE)
_OWN_IN_TEXT = re.compile(r"^towpath\.errors\.(?:\w+\.)?(\w+): ", re.MULTILINE)
_SOURCE_CONDITIONS = ("PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR", "PYTHON_DATA_SOURCE_ERROR")

# Of a task that failed elsewhere, when its exception could not be sent: only the beginning is Spark's own.
_LOST_TASK = re.compile(
    r"Job aborted due to stage failure:[^\n]*?most recent failure: Lost task [\d.]+ in stage [\d.]+ \(TID \d+\) "
    r"\([^()\s]+ executor [\w.-]+\): ([\w.$]+)(?:: ?([^\n]*))?"
)
_MOST_CAUSES = 20


def classify(error: BaseException, state: StageState, nonce: str | None = None) -> Classified:
    """The code of an exception that ended what a stage was doing in that state.

    `nonce` is the one that this attempt's workers were given; without it nothing that they said is believed.
    """
    if nonce is not None and (fault := decode_fault(str(error), nonce)) is not None:
        return Classified(fault.code, fault.step, fault.message or "a worker failed", fault.target, fault.needs_person)
    for each in _chain(error):
        if (code := _own_code(each, state)) is not None:
            target = getattr(each, "target", "") if isinstance(each, errors.SinkError) else ""
            said = bounded(str(each) or type(each).__name__)
            return Classified(code, target, said, target, isinstance(each, errors.NeedsPerson))
    causes = java_causes(error)
    if is_worker_death(error, causes) or is_step_failure(error, nonce, causes):
        return Classified(ErrorCode.TRANSFORM_FAILED, "", _told(error, causes))
    return Classified(_java_code(causes), "", _told(error, causes))


class Classified(NamedTuple):
    """What an exception means to the state machine."""

    code: ErrorCode
    step: str
    message: str
    target: str = ""
    needs_person: bool = False  # no waiting helps


def is_worker_death(error: BaseException, causes: list[JavaCause] | None = None) -> bool:
    """Whether a Python worker has ended: a crash, a signal, `os._exit`, or out of memory."""
    causes = java_causes(error) if causes is None else causes
    return any(
        cause.message.startswith(_DEAD_WORKER) or (_is_python(cause) and bool(_OUT_OF_MEMORY.search(cause.message)))
        for cause in causes
    )


def is_step_failure(error: BaseException, nonce: str | None = None, causes: list[JavaCause] | None = None) -> bool:
    """Whether an expression or a function of a step has failed on some record's values.

    Not: a worker's fault, lost executors, cancelled jobs, no room on disk, a plan that cannot be analysed, a source
    that cannot be read. With the nonce, a record that imitates a worker's fault is not believed.
    """
    causes = java_causes(error) if causes is None else causes
    if any(_is_fault(cause, nonce) or _is_source(cause) for cause in causes):
        return False
    if any(cause.sql_state[:2] in _STEP_SQL_STATES and cause.sql_state for cause in causes):
        return True
    is_job = bool(causes) and causes[0].message.startswith(_FAILED_JOB)
    return is_job and causes[-1].name in _STEP_CLASSES


def _own_code(error: BaseException, state: StageState) -> ErrorCode | None:
    match error:
        case errors.SinkError():
            return ErrorCode(error.code)
        case errors.TopicReplaced(found=None):
            return ErrorCode.TOPIC_NOT_FOUND
        case errors.BadRecord(is_too_large=True):
            return ErrorCode.RECORD_TOO_BIG
        case errors.TowpathError():
            return next((code for kind, code in _OWN.items() if isinstance(error, kind)), None)
    if _is_network(error):
        return ErrorCode.SINK_UNAVAILABLE if state is StageState.LOAD else ErrorCode.NETWORK
    return None


def _is_network(error: BaseException) -> bool:
    names = {f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__}
    is_network_errno = isinstance(error, OSError) and error.errno in _NETWORK_ERRNOS
    return isinstance(error, _NETWORK) or is_network_errno or bool(names & _NETWORK_NAMES)


def _java_code(causes: list[JavaCause]) -> ErrorCode:
    for cause in reversed(causes):
        if _is_source(cause):
            return _code_in_text(cause.message)
        if cause.name in _JAVA:
            return _JAVA[cause.name]
        if cause.name.startswith(_KAFKA):
            return ErrorCode.LOG_UNAVAILABLE
    return ErrorCode.UNCATEGORISED


def _code_in_text(text: str) -> ErrorCode:
    """Of the text in which Towpath's own data source has failed; it has seen no record's content."""
    for name in reversed(_OWN_IN_TEXT.findall(text)):
        if name in _BY_NAME:
            return _BY_NAME[name]
    return ErrorCode.UNCATEGORISED


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and what it was raised from."""
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        yield each
        each = each.__cause__


def _is_python(cause: JavaCause) -> bool:
    return cause.name.endswith(".PythonException")


def _is_source(cause: JavaCause) -> bool:
    return cause.is_source or cause.condition in _SOURCE_CONDITIONS


def _is_fault(cause: JavaCause, nonce: str | None) -> bool:
    if not _is_python(cause):
        return False
    if nonce is not None:
        return decode_fault(cause.message, nonce) is not None
    return bool(_WORKER_FAULT.search(cause.message))


def _told(error: BaseException, causes: list[JavaCause]) -> str:
    """The most telling line: of a Python trace the last one, of a chain in Java the innermost message."""
    for cause in reversed(causes):
        lines = [
            line for line in map(str.strip, cause.message.splitlines()) if line and not line.startswith("SQLSTATE")
        ]
        if lines:
            return bounded(f"{cause.name.rpartition('.')[2]}: {lines[-1 if _is_python(cause) else 0]}")
    return bounded(str(error) or type(error).__name__)


@dataclass(frozen=True, slots=True)
class JavaCause:
    """One exception of the chain."""

    name: str
    message: str = ""
    sql_state: str = ""
    condition: str = ""
    is_source: bool = False  # raised while a Python data source was being read


def java_causes(error: BaseException) -> list[JavaCause]:
    """The Java exception behind this one and its causes, the outermost first; none when there is none."""
    thrown = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    found: list[JavaCause] = []
    try:
        while thrown is not None and len(found) < _MOST_CAUSES:
            found.append(_cause(thrown))
            thrown = thrown.getCause()
    except Exception:
        return found  # Java has gone away meanwhile
    if len(found) == 1 and (lost := _LOST_TASK.match(found[0].message)):
        found.append(JavaCause(lost[1], lost[2] or ""))
    return found


def _cause(thrown: Any) -> JavaCause:
    name = str(thrown.getClass().getName())
    is_spark = name.startswith("org.apache.spark.")
    return JavaCause(
        name,
        str(thrown.getMessage() or ""),
        _asked(thrown, "getSqlState") if is_spark else "",
        _asked(thrown, "getCondition") if is_spark else "",
        name.endswith(".PythonException") and _is_of_source(thrown),
    )


def _asked(thrown: Any, method: str) -> str:
    try:
        return str(getattr(thrown, method)() or "")
    except Exception:
        return ""  # not all of Spark's exceptions have it


def _is_of_source(thrown: Any) -> bool:
    return any("datasources.v2.python" in str(frame.getClassName()) for frame in thrown.getStackTrace())
