"""Which Java runs Spark and the local servers, where pyspark's own Spark is, and how its Java process ended.

pyspark has one Java process for the whole life of a process: one that is gone cannot be replaced.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from towpath.errors import BadSettings, NotInstalled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERSIONS = (17, 21)
PACKAGE = "openjdk-17-jre-headless"
USUAL_PLACES = ("/usr/lib/jvm/*", "/opt/java/*", "/Library/Java/JavaVirtualMachines/*/Contents/Home")
ASK_TIMEOUT_S = 20

_VERSION = re.compile(r'version "(\d+)')
_HOME = re.compile(r"^\s*java\.home = (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that works."""

    home: Path
    program: Path
    version: int


def find_java(java_home: str = "") -> Java:
    """The Java to use: `java_home` if given, then `JAVA_HOME`, then `java` on the path, then usual places.

    One that is too old, too new or broken is passed over, unless `java_home` names it: then `BadSettings` says so.
    Raises `NotInstalled` when there is none.
    """
    if java_home:
        return _as_set(java_home)
    unfit = []
    for program in _candidates():
        found = _ask(program)
        if isinstance(found, Java):
            return found
        unfit.append(found)
    what = "Java 17 or 21" + (f" (found: {', '.join(unfit)})" if unfit else "")
    raise NotInstalled(what, f"type: apt-get install {PACKAGE}, or: towpath doctor --for flows --fix")


def spark_home() -> Path:
    """The directory with Spark's programs and jars; looked for and not imported, which would take a second."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise NotInstalled("pyspark", "pip install towpath")
    return Path(spec.origin).parent


def how_java_ended(session: SparkSession, within_s: float = 0.0) -> str | None:
    """How the Java process of a session has ended, as the end of a sentence; None while it lives.

    One that dies refuses connections a moment before it has ended: `within_s` waits for that.
    """
    gateway: Any = session.sparkContext._gateway
    java: Any = getattr(gateway, "proc", None)  # none when it was not started here
    if java is not None and within_s > 0:
        with suppress(subprocess.TimeoutExpired):
            java.wait(within_s)
    code = None if java is None else java.poll()
    if code is None:
        return None
    if code >= 0:
        return f"ended with exit code {code}"
    return f"was ended by {signal.Signals(-code).name}"


def _as_set(java_home: str) -> Java:
    program = Path(java_home).expanduser() / "bin" / "java"
    found = _ask(program) if program.is_file() else f"{program} is not there"
    if isinstance(found, Java):
        return found
    raise BadSettings(f"spark.java_home: {found}; name the directory of a Java 17 or 21, or leave it empty")


def _candidates() -> Iterator[Path]:
    """Each program once, however many names lead to it."""
    homes = [Path(os.environ["JAVA_HOME"]) / "bin" / "java"] if os.environ.get("JAVA_HOME") else []
    on_path = shutil.which("java")
    places = [path / "bin" / "java" for place in USUAL_PLACES for path in sorted(Path("/").glob(place.lstrip("/")))]
    seen = set()
    for program in [*homes, *([Path(on_path)] if on_path else []), *places]:
        if program.is_file() and program.resolve() not in seen:
            seen.add(program.resolve())
            yield program


def _ask(program: Path) -> Java | str:
    """The Java behind a program; a sentence when it cannot be used."""
    try:
        asked = subprocess.run(
            [program, "-XshowSettings:properties", "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ASK_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return f"{program} does not work"
    said = asked.stderr + asked.stdout
    version, home = _VERSION.search(said), _HOME.search(said)
    if version is None or asked.returncode != 0:
        return f"{program} does not work"
    if int(version[1]) not in VERSIONS:
        return f"{program} is Java {version[1]}"
    # The program may be a script of a version manager, far from the home of what it runs.
    return Java(Path(home[1].strip()) if home else program.resolve().parent.parent, program, int(version[1]))
