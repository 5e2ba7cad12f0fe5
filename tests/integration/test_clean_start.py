"""What starts the tests cannot change what they find: a probe is started in a hostile environment."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support import clean_start

ROOT = Path(__file__).parents[2]
PROBE = """
import json, locale, os, resource, signal, stat, sys, time
def is_open(number):
    try:
        os.fstat(number)
        return True
    except OSError:
        return False
ignored = [each for each in signal.valid_signals() if signal.getsignal(each) is signal.SIG_IGN]
umask = os.umask(0)
print(json.dumps({
    "ignored": sorted(map(int, ignored)),
    "blocked": sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, []))),
    "umask": umask,
    "hour": time.localtime(0).tm_hour,
    "terminal": os.environ["TERM"],
    "encoding": locale.getpreferredencoding(False),
    "open": [number for number in range(64) if is_open(number)],
    "stdin": sys.stdin.read(),
    "files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    "home": os.environ["HOME"],
    "variables": sorted(os.environ),
}))
"""
HOSTILE = {
    "TZ": "Asia/Kathmandu",
    "LC_ALL": "tr_TR.ISO8859-9",
    "LANG": "tr_TR",
    "HOME": "/nonexistent",
    "TOWPATH_DATABASE__URL": "sqlite:////nonexistent/towpath.db",
    "PGHOST": "10.0.0.1",
    "http_proxy": "http://10.0.0.1:3128",
    "HTTPS_PROXY": "http://10.0.0.1:3128",
    "JAVA_TOOL_OPTIONS": "-Xmx1m",
    "SPARK_HOME": "/nonexistent",
    "SPARK_LOCAL_IP": "10.0.0.1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "TERM": "dumb",
    "COLUMNS": "20",
    "LINES": "5",
    "NO_COLOR": "1",
    "FORCE_COLOR": "1",
    "CI": "true",
    "PYTHONWARNINGS": "ignore",
    "PYTEST_ADDOPTS": "--collect-only",
    "XDG_CONFIG_HOME": "/nonexistent",
}
ALLOWED = {
    *("PATH", "TMPDIR", "JAVA_HOME"),
    *("HOME", "XDG_CACHE_HOME", "TESTS_HOME"),
    *("LC_ALL", "LANG", "TZ", "TERM", "PYTHONHASHSEED"),
    "LC_CTYPE",  # Python sets it in the C locale
}
MY_OWN = {signal.SIGPIPE, signal.SIGXFSZ}  # Python ignores them at its start


@pytest.fixture
def seen(tmp_path: Path) -> dict[str, Any]:
    """What the probe says that was started with all this."""
    leaked = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(leaked, True)

    def spoil() -> None:
        for each in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD):
            signal.signal(each, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGALRM})
        os.umask(0o077)
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        os.close(0)

    command = [sys.executable, "-m", "tests.support.clean_start", sys.executable, "-c", PROBE]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path), **HOSTILE},
            close_fds=False,
            preexec_fn=spoil,
            capture_output=True,
            text=True,
        )
    finally:
        os.close(leaked)
    assert (done.returncode, done.stderr) == (0, "")
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def test_nothing_of_a_hostile_shell_is_seen(seen: dict[str, Any], tmp_path: Path) -> None:
    home = Path(seen.pop("home"))
    assert home.parent == tmp_path
    assert not home.exists(), "it is deleted in the end"
    assert set(seen.pop("variables")) <= ALLOWED
    assert seen.pop("files") > 128
    assert seen == {
        "ignored": sorted(map(int, MY_OWN)),
        "blocked": [],
        "umask": 0o022,
        "hour": 0,
        "terminal": "xterm-256color",
        "encoding": "UTF-8",
        "open": [0, 1, 2],
        "stdin": "",
    }


def test_these_very_tests_were_started_so() -> None:
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    assert (os.environ["TZ"], os.environ["LC_ALL"]) == ("UTC", "C.UTF-8")
    assert not [name for name in os.environ if name.upper().startswith(("TOWPATH_", "PG")) or "proxy" in name.lower()]


def test_too_little_disk_is_told_before_anything_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(clean_start, "LEAST_FREE_BYTES", 1 << 60)
    said = clean_start.lack_of_disk()
    assert said is not None
    assert str(1 << 30) in said, "how much is needed, in GiB"
