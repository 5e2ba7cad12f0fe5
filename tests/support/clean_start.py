"""Tests start the same way everywhere: nothing of the shell that starts them reaches them.

    python -m tests.support.clean_start COMMAND [ARGUMENT...]

Sets signals, standard input, open files, limits, umask, time zone, locale, kind of terminal, home directory and
variables, and runs the command, whose home directory is deleted afterwards. `make test` and `make verify` start this
way. A pytest that is called by hand gets the same, except for open files, from `tests/conftest.py`.
"""

from __future__ import annotations

import atexit
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

# A process that has this variable, or was started by one that has it, is clean already.
MARK = "TESTS_HOME"
KEPT = ("PATH", "JAVA_HOME", "TMPDIR")
KEPT_PREFIXES = (
    "TESTS_",
    "STEADY_",
    "PYTEST_XDIST_",
    "COVERAGE_",
    "COV_",
)  # ours, and those of the tools that run tests
STEADY = "STEADY_RUN"  # `make steady` delays the disk by a library that is loaded first
SET = {"LC_ALL": "C.UTF-8", "LANG": "C.UTF-8", "TZ": "UTC", "TERM": "xterm-256color", "PYTHONHASHSEED": "0"}
UMASK = 0o022
OPEN_FILES = 16_384  # at most; a broker alone wants some hundreds
LEAST_FREE_BYTES = 6 << 30
IGNORED_BY_PYTHON = {signal.SIGPIPE, signal.SIGXFSZ}


def main(command: Sequence[str]) -> int:
    if not command:
        print(__doc__, file=sys.stderr)  # noqa: T201
        return 2
    if (missing := lack_of_disk()) is not None:
        print(f"error: {missing}", file=sys.stderr)  # noqa: T201
        return 2
    default_signals()
    limit_process()
    only_standard_files()
    environment = clean_environment(os.environ)
    try:
        return run(command, environment)
    finally:
        shutil.rmtree(environment[MARK], ignore_errors=True)


def run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Its exit code. What a terminal sends goes to both processes; what is sent to this one alone is passed on."""
    process = subprocess.Popen(command, env=environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, lambda number, _: process.send_signal(number))
    code = process.wait()
    return code if code >= 0 else 128 - code


def clean_process() -> None:
    """The same for a process that runs already."""
    if MARK in os.environ:
        return
    environment = clean_environment(os.environ)
    atexit.register(shutil.rmtree, environment[MARK], ignore_errors=True)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    default_signals()
    limit_process()


def clean_environment(given: Mapping[str, str]) -> dict[str, str]:
    """What of these variables tests may see, and what they shall see."""
    preloaded = ("LD_PRELOAD",) if STEADY in given else ()
    kept = {
        name: value for name, value in given.items() if name in (*KEPT, *preloaded) or name.startswith(KEPT_PREFIXES)
    }
    home = kept.setdefault(MARK, tempfile.mkdtemp(prefix="towpath-home-"))
    return {**kept, **SET, "HOME": home, "XDG_CACHE_HOME": str(cache(given))}


def cache(given: Mapping[str, str]) -> Path:
    """Where `towpath` keeps what it has fetched: that is not fetched again for every run of the tests."""
    named = given.get("XDG_CACHE_HOME", "")
    return Path(named) if os.path.isabs(named) else Path(given.get("HOME", "~")).expanduser() / ".cache"


def default_signals() -> None:
    """A shell starts what is in its background with SIGINT ignored, `nohup` with SIGHUP; children would inherit it."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())
    for each in signal.valid_signals() - IGNORED_BY_PYTHON:
        if signal.getsignal(each) is signal.SIG_IGN:
            signal.signal(each, signal.default_int_handler if each == signal.SIGINT else signal.SIG_DFL)


def limit_process() -> None:
    os.umask(UMASK)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def only_standard_files() -> None:
    """Standard input is empty, standard output and error are there, and nothing else is open."""
    os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    for number in (0, 1, 2):
        if number == 0 or not _is_open(number):
            nothing = os.open(os.devnull, os.O_RDWR)
            if nothing != number:
                os.dup2(nothing, number)
                os.close(nothing)
            os.set_inheritable(number, True)


def lack_of_disk() -> str | None:
    """What is wrong when the directory for temporary files has too little room."""
    where = tempfile.gettempdir()
    free = shutil.disk_usage(where).free
    if free >= LEAST_FREE_BYTES:
        return None
    return (
        f"the tests need {LEAST_FREE_BYTES >> 30} GiB of free disk in {where}, and {free / (1 << 30):.1f} are free: "
        "make room there, or set TMPDIR to a directory with more"
    )


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
