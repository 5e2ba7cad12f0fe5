"""What an exception of Spark's is about, without loading Spark: the chain of its Java causes.

Texts of exceptions hold what was in the record, so they prove nothing. What counts here is what no record can write:
names of Java classes, the SQL states that Spark gives its errors, and the beginnings of messages that Spark makes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

_MOST_CAUSES = 20

# Of a task that failed elsewhere, when its exception could not be sent: only the beginning is Spark's own.
_LOST_TASK = re.compile(
    r"Job aborted due to stage failure:[^\n]*?most recent failure: Lost task [\d.]+ in stage [\d.]+ \(TID \d+\) "
    r"\([^()\s]+ executor [\w.-]+\): ([\w.$]+)(?:: ?([^\n]*))?"
)


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
