"""Ivy, the fetcher of Java libraries that pyspark carries, as a program.

Where it looks is its own business: `~/.ivy2/ivysettings.xml` if there is one, else the registry that Ivy knows by
itself. Proxies are set as for any Java program (`JAVA_TOOL_OPTIONS`).
"""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from towpath.errors import FetchFailed, NotInstalled
from towpath.spark.home import spark_home
from towpath.spark.java import Java

POLL_S = 0.1
STALL_S = 120.0
CONNECT_TIMEOUT_S = 15
READ_TIMEOUT_S = 60
RETRIEVED = "[artifact]-[revision].[ext]"

# Without descriptors (`usepoms`) one request brings one file; what it must be is in our own lock.
_SETTINGS = """<ivysettings><settings defaultResolver="main"/>
<resolvers><ibiblio name="main" m2compatible="true" usepoms="false" checksums=""/></resolvers></ivysettings>
"""
_MODULE = """<ivy-module version="2.0"><info organisation="towpath" module="artifacts"/>
<configurations><conf name="default"/></configurations><dependencies>
{dependencies}
</dependencies></ivy-module>
"""
_DEPENDENCY = (
    '<dependency org={org} name={name} rev={rev} transitive="false" conf="default->default">'
    "<artifact name={name} type={ext} ext={ext}/></dependency>"
)
_REASONS = (
    (re.compile(r"No space left on device|Disk quota exceeded"), "the disk is full; make room"),
    (
        re.compile(r"Host \S+ not found|UnknownHost|ConnectException|NoRouteToHost|timed out|Network is unreachable"),
        "the registry cannot be reached; look at the network (a proxy is set with JAVA_TOOL_OPTIONS)",
    ),
    (re.compile(r"SSL\w+Exception|CertificateException"), "the registry's certificate is not trusted by this Java"),
    (re.compile(r"module not found: (\S+)"), "the registry does not have it"),
)


@dataclass(frozen=True, slots=True)
class Coordinates:
    """The name of one file in a registry of Java libraries."""

    organisation: str
    name: str
    revision: str
    extension: str

    @property
    def file_name(self) -> str:
        return f"{self.name}-{self.revision}.{self.extension}"


def ivy_jar() -> Path:
    """The Ivy inside pyspark."""
    found = sorted((spark_home() / "jars").glob("ivy-*.jar"))
    if not found:
        raise NotInstalled("Ivy, a part of pyspark,", "pip install --force-reinstall --no-deps pyspark")
    return found[-1]


def retrieve(wanted: Iterable[Coordinates], scratch: Path, java: Java, tick: Callable[[], int], held: int) -> Path:
    """Fetch exactly these files into a directory below `scratch`, unverified.

    `tick` is called many times a second and says how many bytes there are; without more of them for `STALL_S` the
    fetch is given up. `held` is an open file that Ivy inherits: if we are killed, whoever waits for the lock on it
    waits until Ivy has ended, which would otherwise go on writing into a directory that the next one clears away.
    """
    module, settings, out = scratch / "ivy.xml", scratch / "ivysettings.xml", scratch / "out"
    module.write_text(_MODULE.format(dependencies="\n".join(map(_dependency, wanted))), encoding="utf-8")
    settings.write_text(_SETTINGS, encoding="utf-8")
    own = Path.home() / ".ivy2" / "ivysettings.xml"
    words = ["-settings", own if own.is_file() else settings, "-ivy", module, "-retrieve", out / RETRIEVED]
    log = scratch / "ivy.log"
    code = _run(command(java, scratch, [str(word) for word in words]), log, tick, held)
    if code != 0:
        raise FetchFailed(_reason(log.read_text(errors="replace")))
    return out


def command(java: Java, scratch: Path, words: list[str]) -> list[str]:
    """A run of Ivy that keeps all that it writes below `scratch`."""
    properties = {
        "ivy.default.ivy.user.dir": scratch / "home",
        "sun.net.client.defaultConnectTimeout": CONNECT_TIMEOUT_S * 1000,
        "sun.net.client.defaultReadTimeout": READ_TIMEOUT_S * 1000,
    }
    options = [f"-D{name}={value}" for name, value in properties.items()]
    return [str(java.program), *options, "-jar", str(ivy_jar()), "-warn", "-cache", str(scratch / "cache"), *words]


def _run(words: list[str], log: Path, tick: Callable[[], int], held: int) -> int:
    with log.open("wb") as written:
        ivy = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=written, stderr=written, pass_fds=[held])
    try:
        have, moved_at = -1, time.monotonic()
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return ivy.wait(POLL_S)
            now = tick()
            if now != have:
                have, moved_at = now, time.monotonic()
            elif time.monotonic() - moved_at > STALL_S:
                raise FetchFailed(f"nothing came for {STALL_S:g} s; look at the network")
    finally:
        if ivy.poll() is None:
            ivy.send_signal(signal.SIGKILL)
            ivy.wait()


def _dependency(file: Coordinates) -> str:
    values = {"org": file.organisation, "name": file.name, "rev": file.revision, "ext": file.extension}
    return _DEPENDENCY.format(**{key: quoteattr(value) for key, value in values.items()})


def _reason(said: str) -> str:
    for pattern, reason in _REASONS:
        if found := pattern.search(said):
            return f"{found[0].strip()}: {reason}"
    lines = [line.strip() for line in said.splitlines() if line.strip(" \t.:")]
    return f"Ivy failed: {' · '.join(lines[-3:]) or 'it said nothing'}"
