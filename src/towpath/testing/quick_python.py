"""Python processes that Spark starts: forked from one that has imported everything, as in `fork_server`.

Spark starts them for each query over the SQLite log and for each one with state, and most of what they do is to load
modules. It is given a small program instead of Python, which hands its order, its environment and its open files to the
process here, and lives as long as what was forked for it. Nothing else is different.

    python -m towpath.testing.quick_python SOCKET MODULE...    is started by `quick_python`
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from towpath.flow.worker import daemon
from towpath.testing.clock import wait_until
from towpath.testing.fork_server import ForkEnds, run, settle

MOST_BYTES = 1 << 20
START_S = 60
RUNNERS = (
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.streaming.transform_with_state_driver_worker",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.worker",
)
# Without the site and the user's variables it starts in a hundredth of a second.
PROGRAM = """#!{python} -SE
import json, os, socket, sys
here = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
try:
    here.connect({address!r})
except OSError:  # its server is gone
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
order = {{"arguments": sys.argv[1:], "environment": dict(os.environ), "cwd": os.getcwd()}}
socket.send_fds(here, [json.dumps(order).encode()], [0, 1, 2])
for each in (0, 1, 2):
    os.close(each)
os._exit(int(here.recv(16) or 1))
"""


@contextmanager
def quick_python(modules: Sequence[str] = ()) -> Iterator[Path]:
    """The program that Spark is to take for Python; `modules`: what the functions of flows need besides."""
    with tempfile.TemporaryDirectory(prefix="towpath-python-") as home:  # a socket's path must be short
        address, program = Path(home, "socket"), Path(home, "python")
        program.write_text(PROGRAM.format(python=sys.executable, address=str(address)))
        program.chmod(0o700)
        command = [sys.executable, "-m", __name__, str(address), *modules]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as server:
            try:
                wait_until(lambda: address.exists() or server.poll() is not None, START_S, "a process to fork from")
                if server.poll() is not None:
                    raise RuntimeError("the process to fork from has ended; what it wrote stands above")
                yield program
            finally:
                server.kill()


class _Server:
    """Forks, and tells each program how what was forked for it has ended."""

    def __init__(self, address: str) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(address)
        self._listener.listen(64)
        self._programs: dict[int, socket.socket] = {}  # by what was forked for them
        self._ends = ForkEnds()

    def serve(self) -> list[str] | None:
        """Returns in each fork with its arguments, and here when whoever has started this is gone."""
        while True:
            pids = {program.fileno(): pid for pid, program in self._programs.items()}
            ready, _, _ = select.select([0, self._listener.fileno(), self._ends.descriptor, *pids], [], [])
            if 0 in ready:
                return None
            for each in pids.keys() & set(ready):  # Spark has ended the program, and means what it stands for
                self._programs.pop(pids[each]).close()
                os.kill(pids[each], signal.SIGTERM)
            if self._listener.fileno() in ready and (arguments := self._fork()) is not None:
                return arguments
            for pid, code in self._ends.take():
                if (program := self._programs.pop(pid, None)) is not None:
                    with suppress(OSError), program:
                        program.send(b"%d" % (code & 0xFF))

    def _fork(self) -> list[str] | None:
        """The arguments in the fork, None here."""
        program, _ = self._listener.accept()
        said, files, _, _ = socket.recv_fds(program, MOST_BYTES, 3)
        if len(files) < 3:  # it was ended before it had spoken
            program.close()
            return None
        order: dict[str, Any] = json.loads(said)
        if (pid := os.fork()) == 0:
            self._ends.leave()
            for held in (program, self._listener, *self._programs.values()):
                held.close()
            settle(order["cwd"], order["environment"], files)
            _extend_path(os.environ.get("PYTHONPATH", ""))
            arguments: list[str] = order["arguments"]
            return arguments
        for each in files:
            os.close(each)
        self._programs[pid] = program
        return None


def _extend_path(paths: str) -> None:
    for path in reversed(paths.split(os.pathsep)):
        if path and path not in sys.path and not daemon.is_java(path):
            sys.path.insert(1, path)


def main() -> None:
    address, *modules = sys.argv[1:]
    daemon.load()
    for name in (*RUNNERS, *modules):
        importlib.import_module(name)
    gc.freeze()
    if not daemon.is_alone():
        raise SystemExit("a module has started a thread: nothing can be forked from this process")
    if (arguments := _Server(address).serve()) is None:
        os._exit(0)
    _, module, *rest = arguments  # -m
    run(module, rest)


if __name__ == "__main__":
    main()
