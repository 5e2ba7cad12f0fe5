"""The library that is loaded into all processes of the tests before anything else, and what it shares with us."""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DELAY_MS = 200
SOURCE = Path(__file__).with_name("delay.c")
# As `delay.c` has it.
HEADER_BYTES = 8
MOST_PID = 4_194_304
SHARED_BYTES = HEADER_BYTES + MOST_PID + 1


class NoCompiler(Exception):
    """Without one the library cannot be made."""


class Shared:
    """The file by which the library tells how many calls it has delayed, and which processes the tests hold."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("r+b") as file:
            self._bytes = mmap.mmap(file.fileno(), SHARED_BYTES)

    @property
    def delayed(self) -> int:
        """How many calls were delayed."""
        counted: int = struct.unpack_from("=Q", self._bytes)[0]
        return counted

    def is_held(self, pid: int) -> bool:
        """Whether a test has stopped this process and not continued it."""
        return self._bytes[HEADER_BYTES + pid] != 0


class Preload:
    """A compiled library with a shared file beside it, where every user can reach them: servers have their own user."""

    def __init__(self, home: Path) -> None:
        home.chmod(0o755)
        self._library = home / "steady-delay.so"
        path = home / "shared"
        path.touch()
        path.chmod(0o666)
        with path.open("r+b") as file:
            file.truncate(SHARED_BYTES)
        self.shared = Shared(path)
        compile_library(self._library)

    def environment(self, delay_ms: int = DELAY_MS) -> dict[str, str]:
        """The variables that a process needs; its children inherit them."""
        return {
            "LD_PRELOAD": str(self._library),
            "STEADY_SHARED": str(self.shared.path),
            "STEADY_DELAY_MS": str(delay_ms),
        }


@contextmanager
def preload() -> Iterator[Preload]:
    """In a directory of its own, which is deleted after use."""
    with tempfile.TemporaryDirectory(prefix="steady-") as home:
        yield Preload(Path(home))


def compile_library(library: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise NoCompiler(
            "no C compiler was found, and fsync is delayed by a small C library; type: scripts/bootstrap --cc"
        )
    command = [compiler, "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", str(library), str(SOURCE), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise NoCompiler(f"{compiler} could not compile {SOURCE}; it says:\n{done.stderr}")
    library.chmod(0o755)
