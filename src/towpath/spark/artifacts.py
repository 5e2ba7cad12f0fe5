"""Files from the registries of the Java world: pinned, verified, kept.

Each set has a lock, `locks/NAME.lock`, with every file that belongs to it: `org:name:revision:extension sha256 size`.
`fetch` gives a directory with exactly those files. They are fetched aside, verified and only then moved in, so that
what is in the directory is whole; every later call looks at all of them again, needs no network, and brings only what
is missing or damaged.

They are fetched by Ivy, which pyspark carries, run as a program. It asks the registry of `~/.ivy2/ivysettings.xml` if
there is such a file, else the one that Ivy knows by itself. Proxies are set as for any Java program
(`JAVA_TOOL_OPTIONS`).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Self
from xml.sax.saxutils import quoteattr

from towpath.errors import FetchFailed, NotInstalled
from towpath.spark.java import Java, spark_home

SPARK_KAFKA = "spark-kafka"
KAFKA = "kafka"
ELASTICSEARCH = "elasticsearch"
OPENSEARCH = "opensearch"  # for our own tests
SETS = (SPARK_KAFKA, KAFKA, ELASTICSEARCH, OPENSEARCH)
# Only Java reads a jar, and it believes what it reads. Other files are unpacked, by code that hashes them before.
HASHED_EACH_TIME = "jar"
HASHERS = 2

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
class FetchProgress:
    """How far the fetching of one set has come."""

    name: str
    files: int
    files_total: int
    bytes: int
    bytes_total: int
    is_waiting: bool = False  # for another process that does the same


Report = Callable[[FetchProgress], None]


def fetch(name: str, java: Java, report: Report | None = None) -> Path:
    """The directory with the files of a set, after fetching what is not there yet.

    Two processes that ask at once wait for each other. Raises `FetchFailed`.
    """
    lock = read_lock(name)
    directory = _directory(name, lock)
    if not _lacking(lock, directory):
        return directory
    try:
        with exclusively(directory.parent / f"{name}.lock", lambda: tell_waiting(name, report)) as held:
            lacking = _lacking(lock, directory)  # somebody else may have fetched it while we waited
            if lacking:
                _bring(name, lacking, directory, java, report, held)
                _remove_strangers(lock, directory)
    except FetchFailed as error:
        raise FetchFailed(f"{name} cannot be fetched: {error}; then run the same command again") from error
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        text = "the disk is full; make room" if full else f"{error.strerror}: {error.filename}"
        raise FetchFailed(f"{name} cannot be fetched to {directory.parent}: {text}") from error
    return directory


def is_fetched(name: str) -> bool:
    """Whether `fetch` would need no network."""
    lock = read_lock(name)
    return not _lacking(lock, _directory(name, lock))


def tell_waiting(name: str, report: Report | None) -> None:
    """Say that another process is at work on the same files."""
    if report is not None:
        lock = read_lock(name)
        report(FetchProgress(name, 0, len(lock), 0, sum(artifact.size for artifact in lock), is_waiting=True))


def read_lock(name: str) -> list[Artifact]:
    """The files of a set."""
    text = (resources.files("towpath.spark") / "locks" / f"{name}.lock").read_text(encoding="utf-8")
    return [Artifact.from_line(line) for line in text.splitlines()]


def cache_directory() -> Path:
    """Where all that can be fetched again is kept."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    # A relative path is to be ignored, says the specification of the variable.
    base = Path(given) if os.path.isabs(given) else Path.home() / ".cache"
    return base / "towpath"


@contextmanager
def exclusively(path: Path, when_waiting: Callable[[], None] | None = None) -> Iterator[int]:
    """A lock for one process at a time. The end of a process, however it comes, lets the next one in.

    Gives the open file: a child that inherits it keeps the others out until it has ended too.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if when_waiting is not None:
                when_waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


@dataclass(frozen=True, slots=True)
class Artifact:
    """One file of a lock."""

    coordinates: Coordinates
    sha256: str
    size: int

    @classmethod
    def from_line(cls, line: str) -> Self:
        names, sha256, size = line.split()
        return cls(Coordinates(*names.split(":")), sha256, int(size))

    @property
    def line(self) -> str:
        it = self.coordinates
        return f"{it.organisation}:{it.name}:{it.revision}:{it.extension} {self.sha256} {self.size}"

    @property
    def file_name(self) -> str:
        return f"{self.coordinates.name}-{self.coordinates.revision}.{self.coordinates.extension}"

    def fits(self, path: Path) -> bool:
        """Whether the file there has the size and the hash of the lock."""
        try:
            return path.stat().st_size == self.size and sha256_of(path) == self.sha256
        except OSError:  # whatever it is, it cannot be used; fetching it again says why if that fails too
            return False

    def seems_to_fit(self, path: Path) -> bool:
        """A check quick enough for every start: what Java reads is hashed, the size of other files is compared."""
        if self.coordinates.extension == HASHED_EACH_TIME:
            return self.fits(path)
        try:
            return path.stat().st_size == self.size
        except OSError:
            return False


@dataclass(frozen=True, slots=True)
class Coordinates:
    """The name of one file in a registry of Java libraries."""

    organisation: str
    name: str
    revision: str
    extension: str


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _directory(name: str, lock: list[Artifact]) -> Path:
    # Another lock is another directory: two versions of Towpath do not take each other's files away.
    digest = hashlib.sha256("\n".join(artifact.line for artifact in lock).encode()).hexdigest()[:12]
    return cache_directory() / "artifacts" / f"{name}-{digest}"


def _lacking(lock: list[Artifact], directory: Path) -> list[Artifact]:
    # Hashing lets go of the interpreter, so that two cores halve the time.
    with ThreadPoolExecutor(HASHERS) as pool:
        fit = pool.map(lambda artifact: artifact.seems_to_fit(directory / artifact.file_name), lock)
        return [artifact for artifact, fits in zip(lock, fit, strict=True) if not fits]


def _bring(name: str, wanted: list[Artifact], directory: Path, java: Java, report: Report | None, held: int) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    with _scratch(directory.parent, name) as scratch:
        watch = _Watch(name, wanted, scratch / "cache", report)
        out = _retrieve([artifact.coordinates for artifact in wanted], scratch, java, watch.look, held)
        for artifact in wanted:
            got = out / artifact.file_name
            if not artifact.fits(got):
                raise FetchFailed(f"{artifact.file_name} is not the file that was expected (its sha256 differs)")
        for artifact in wanted:
            (out / artifact.file_name).replace(directory / artifact.file_name)
        watch.done()


@contextmanager
def _scratch(parent: Path, name: str) -> Iterator[Path]:
    """A directory that is removed afterwards; first removes what killed processes have left."""
    prefix = f".fetching-{name}-"
    for left in parent.glob(f"{prefix}*"):
        shutil.rmtree(left, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(dir=parent, prefix=prefix))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _remove_strangers(lock: list[Artifact], directory: Path) -> None:
    ours = {artifact.file_name for artifact in lock}
    for path in directory.iterdir():
        if path.name not in ours:
            path.unlink()


class _Watch:
    """Looks at what Ivy has written so far, also into files that are not complete yet."""

    def __init__(self, name: str, wanted: list[Artifact], cache: Path, report: Report | None) -> None:
        self._name = name
        self._files_total = len(wanted)
        self._bytes_total = sum(artifact.size for artifact in wanted)
        self._extensions = {f".{artifact.coordinates.extension}" for artifact in wanted}
        self._cache = cache
        self._report = report

    def look(self) -> int:
        files = written = 0
        for folder, _, names in os.walk(self._cache):
            for name in names:
                complete = os.path.splitext(name)[1] in self._extensions
                if complete or name.endswith(".part"):
                    files += complete
                    written += _size(os.path.join(folder, name))
        self._tell(files, min(written, self._bytes_total))
        return written

    def done(self) -> None:
        self._tell(self._files_total, self._bytes_total)

    def _tell(self, files: int, written: int) -> None:
        if self._report is not None:
            self._report(FetchProgress(self._name, files, self._files_total, written, self._bytes_total))


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:  # renamed between the listing and the look
        return 0


def _retrieve(wanted: Iterable[Coordinates], scratch: Path, java: Java, tick: Callable[[], int], held: int) -> Path:
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
    """The command line of an Ivy that writes below `scratch` only."""
    properties = {
        "ivy.default.ivy.user.dir": scratch / "home",
        "sun.net.client.defaultConnectTimeout": CONNECT_TIMEOUT_S * 1000,
        "sun.net.client.defaultReadTimeout": READ_TIMEOUT_S * 1000,
    }
    options = [f"-D{name}={value}" for name, value in properties.items()]
    return [str(java.program), *options, "-jar", str(ivy_jar()), "-warn", "-cache", str(scratch / "cache"), *words]


def ivy_jar() -> Path:
    """The Ivy inside pyspark."""
    found = sorted((spark_home() / "jars").glob("ivy-*.jar"))
    if not found:
        raise NotInstalled("Ivy, a part of pyspark,", "pip install --force-reinstall --no-deps pyspark")
    return found[-1]


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
