"""Fetching files: pinned, verified, whole or not at all. A small program plays Java with Ivy in it."""

from __future__ import annotations

import fcntl
import hashlib
import multiprocessing
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from towpath.errors import FetchFailed
from towpath.spark import artifacts
from towpath.spark.artifacts import SETS, Artifact, Coordinates, FetchProgress, fetch, is_fetched, read_lock
from towpath.spark.java import Java
from towpath.testing.clock import wait_until

CONTENTS = {"one-1.0.jar": b"the first" * 1000, "two-2.1.jar": b"the second" * 500, "three-3.zip": b"packed"}

# Reads which files are wanted from ivy.xml, and copies them from the registry as Ivy does: to its cache, then out.
IVY = r"""
import pathlib, re, shutil, sys, time
registry, runs = pathlib.Path({registry!r}), pathlib.Path({runs!r})
with runs.open("a") as log:
    log.write("run\n")
words = sys.argv
out = pathlib.Path(words[words.index("-retrieve") + 1]).parent
cache = pathlib.Path(words[words.index("-cache") + 1])
text = pathlib.Path(words[words.index("-ivy") + 1]).read_text()
while (registry / "gate").exists():
    time.sleep(0.01)
if (registry / "says").exists():
    print((registry / "says").read_text())
    sys.exit(1)
for name, rev, ext in re.findall(r'name="([^"]+)" rev="([^"]+)".*?ext="([^"]+)"', text):
    file = f"{{name}}-{{rev}}.{{ext}}"
    for place in (cache / name / "jars", out):
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(registry / file, place / file)
"""


@dataclass
class Registry:
    """Where the files come from."""

    directory: Path
    java: Java
    runs_file: Path

    @property
    def runs(self) -> int:
        return len(self.runs_file.read_text().splitlines()) if self.runs_file.exists() else 0

    def fetch(self) -> Path:
        return fetch("things", self.java)


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(artifacts, "ivy_jar", lambda: Path("ivy.jar"))
    monkeypatch.setattr(artifacts, "read_lock", lambda name: [locked(*item) for item in CONTENTS.items()])
    directory, program, runs = tmp_path / "registry", tmp_path / "java", tmp_path / "runs"
    directory.mkdir()
    for name, content in CONTENTS.items():
        (directory / name).write_bytes(content)
    program.write_text(f"#!{sys.executable}\n{IVY.format(registry=str(directory), runs=str(runs))}")
    program.chmod(0o755)
    yield Registry(directory, Java(tmp_path, program, 17), runs)
    assert list((tmp_path / "cache").rglob(".fetching-*")) == [], "nothing half-finished is left"


def locked(file_name: str, content: bytes) -> Artifact:
    name, revision, extension = re.fullmatch(r"(\w+)-([\d.]+)\.(\w+)", file_name).groups()  # type: ignore[union-attr]
    coordinates = Coordinates("org.example", name, revision, extension)
    return Artifact(coordinates, hashlib.sha256(content).hexdigest(), len(content))


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_the_directory_holds_exactly_the_files_of_the_lock(registry: Registry) -> None:
    assert not is_fetched("things")
    assert contents(registry.fetch()) == CONTENTS
    assert is_fetched("things")


def test_the_second_time_nothing_is_fetched(registry: Registry) -> None:
    assert registry.fetch() == registry.fetch()
    assert registry.runs == 1


def test_progress_goes_to_the_end(registry: Registry) -> None:
    seen: list[FetchProgress] = []
    fetch("things", registry.java, seen.append)
    total = sum(map(len, CONTENTS.values()))
    assert seen[-1] == FetchProgress("things", 3, 3, total, total)


@pytest.mark.parametrize("name", CONTENTS)
@pytest.mark.parametrize("harm", ["missing", "truncated", "empty"])
def test_what_is_not_whole_is_fetched_again(name: str, harm: str, registry: Registry) -> None:
    path = registry.fetch() / name
    if harm == "missing":
        path.unlink()
    else:
        path.write_bytes(CONTENTS[name][:-1] if harm == "truncated" else b"")
    assert contents(registry.fetch()) == CONTENTS
    assert registry.runs == 2


def test_a_jar_that_was_changed_is_fetched_again(registry: Registry) -> None:
    path = registry.fetch() / "one-1.0.jar"
    path.write_bytes(b"x" + CONTENTS["one-1.0.jar"][1:])
    assert contents(registry.fetch()) == CONTENTS


def test_a_file_that_is_not_in_the_lock_does_not_stay(registry: Registry) -> None:
    directory = registry.fetch()
    (directory / "stranger-1.jar").write_bytes(b"")
    (directory / "one-1.0.jar").unlink()
    assert contents(registry.fetch()) == CONTENTS


@pytest.mark.parametrize("content", [b"", b"something else" * 1000, CONTENTS["two-2.1.jar"] + b"x"])
def test_a_file_that_is_not_the_expected_one_is_refused_whole(content: bytes, registry: Registry) -> None:
    (registry.directory / "two-2.1.jar").write_bytes(content)
    with pytest.raises(FetchFailed, match=r"two-2\.1\.jar"):
        registry.fetch()
    assert not is_fetched("things")
    (registry.directory / "two-2.1.jar").write_bytes(CONTENTS["two-2.1.jar"])
    assert contents(registry.fetch()) == CONTENTS


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Host registry.example not found. url=…", "reached"),
        ("(java.net.ConnectException: Connection refused)", "reached"),
        ("java.net.SocketTimeoutException: Connect timed out", "reached"),
        ("java.io.IOException: No space left on device", "disk"),
        ("module not found: org.example#one;1.0", "does not have"),
        ("javax.net.ssl.SSLHandshakeException: PKIX", "certificate"),
        ("something new", "something new"),
        ("", "nothing"),
    ],
)
def test_a_failure_is_told_in_one_line(said: str, told: str, registry: Registry) -> None:
    (registry.directory / "says").write_text(said)
    with pytest.raises(FetchFailed) as caught:
        registry.fetch()
    assert told in str(caught.value)
    assert "things" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_after_a_failure_only_what_lacks_is_fetched(registry: Registry) -> None:
    directory = registry.fetch()
    (directory / "one-1.0.jar").unlink()
    (registry.directory / "two-2.1.jar").unlink()
    assert contents(registry.fetch()) == CONTENTS


def test_two_at_once_fetch_once(registry: Registry) -> None:
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(registry.fetch) for _ in range(4)]
        assert len({it.result() for it in asked}) == 1
    assert registry.runs == 1


def test_waiting_for_another_process_is_told(registry: Registry, tmp_path: Path) -> None:
    seen: list[FetchProgress] = []
    lock_file = tmp_path / "cache" / "towpath" / "artifacts" / "things.lock"
    with ThreadPoolExecutor(1) as pool:
        with artifacts.exclusively(lock_file):
            asked = pool.submit(fetch, "things", registry.java, seen.append)
            wait_until(lambda: seen)
            total = sum(map(len, CONTENTS.values()))
            assert seen == [FetchProgress("things", 0, 3, 0, total, is_waiting=True)]
        assert contents(asked.result()) == CONTENTS
    assert not seen[-1].is_waiting


def test_what_a_killed_fetch_left_is_no_obstacle(registry: Registry, tmp_path: Path) -> None:
    left = tmp_path / "cache" / "towpath" / "artifacts" / ".fetching-things-abc" / "cache"
    left.mkdir(parents=True)
    (left / "one-1.0.jar.part").write_bytes(b"the fir")
    assert contents(registry.fetch()) == CONTENTS


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_after_a_kill_the_next_one_waits_for_what_still_writes(registry: Registry, tmp_path: Path) -> None:
    """The killed process leaves its Ivy behind, which would write into a directory that the next one clears away."""
    gate = registry.directory / "gate"
    gate.touch()
    killed = multiprocessing.get_context("fork").Process(target=registry.fetch)
    killed.start()
    wait_until(lambda: registry.runs == 1)
    killed.kill()
    killed.join()
    lock_file = tmp_path / "cache" / "towpath" / "artifacts" / "things.lock"
    with lock_file.open() as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    gate.unlink()
    assert contents(registry.fetch()) == CONTENTS
    assert registry.runs == 2


def test_a_cache_that_cannot_be_written_is_told(registry: Registry, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    with pytest.raises(FetchFailed, match=r"Not a directory|File exists"):
        registry.fetch()


@pytest.mark.parametrize("name", SETS)
def test_the_locks_are_complete(name: str) -> None:
    lock = read_lock(name)
    assert lock
    names = [artifact.file_name for artifact in lock]
    assert len(set(names)) == len(names)
    assert [artifact.line for artifact in lock] == sorted(artifact.line for artifact in lock)
    for artifact in lock:
        assert re.fullmatch("[0-9a-f]{64}", artifact.sha256)
        assert artifact.size > 0
        assert Artifact.from_line(artifact.line) == artifact
        assert "/" not in artifact.line
