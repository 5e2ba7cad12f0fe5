"""A container of the test engine: a process, with what an engine knows of it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import IO, Any
from uuid import uuid4

from towpath.supervision.launchers.launcher import LAUNCH_VARIABLE
from towpath.supervision.launchers.process_tree import end_process_tree

NEVER = "0001-01-01T00:00:00Z"
PIECE = 16 << 10  # the most that an engine keeps of a line in one piece
BATCH = 1_000
OUTPUT, ERRORS = 1, 2
_ULIMITS = {"nofile": "-n", "cpu": "-t"}
_MB = 1 << 20


class Container:
    """Created, started once or more, ended."""

    def __init__(self, name: str, config: dict[str, Any], tell: Callable[[Container, str], None]) -> None:
        self.id = uuid4().hex * 2
        self.name = name
        self.config = config
        self.created = datetime.now(UTC)
        self.status = "created"
        self.exit_code = 0
        self.error = ""
        self.started_at = self.finished_at = NEVER
        self.log: deque[tuple[int, bytes]] = deque()
        self._dropped = 0
        self._log_bytes = 0
        self._tell = tell
        self._process: subprocess.Popen[bytes] | None = None
        self.changed = threading.Condition()

    @property
    def is_running(self) -> bool:
        return self.status == "running"

    @property
    def command(self) -> list[str]:
        return [*self.config["Entrypoint"], *self.config["Cmd"]]

    # Its life

    def start(self) -> str | None:
        """What an engine says when it cannot."""
        environment = dict(each.split("=", 1) for each in self.config["Env"])
        program = self.command[0]
        found = shutil.which(program, os.F_OK | os.X_OK, environment.get("PATH", os.defpath))
        if found is None:
            self.exit_code, told = _cannot_run(program)
            self.error = (
                "failed to create task for container: failed to create shim task: OCI runtime create failed: runc "
                f"create failed: unable to start container process: exec: {told}: unknown"
            )
            return self.error
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", f'{self._limits()} exec "$@"', "sh", found, *self.command[1:]],
            env=environment,
            cwd=self.config.get("WorkingDir") or "/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.error, self.status, self.started_at = "", "running", _now()
        threading.Thread(target=self._attend, args=(self._process,), daemon=True).start()
        return None

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None and self.is_running else 0

    def signal(self, which: signal.Signals) -> None:
        if self._process is not None and self.is_running:
            if which is signal.SIGKILL:
                os.killpg(self._process.pid, which)
            else:
                os.kill(self._process.pid, which)

    def wait(self, timeout_s: float | None = None) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: not self.is_running, timeout_s)

    def _limits(self) -> str:
        host = self.config.get("HostConfig", {})
        words = [f"ulimit -S {_ULIMITS[each['Name']]} {each['Soft']};" for each in host.get("Ulimits", [])]
        words += [f"ulimit -H {_ULIMITS[each['Name']]} {each['Hard']};" for each in host.get("Ulimits", [])]
        if memory := host.get("Memory"):
            words.append(f"ulimit -d {memory // 1024};")
        return " ".join(words)

    def _attend(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        readers = [
            threading.Thread(target=self._read, args=each, daemon=True)
            for each in ((OUTPUT, process.stdout), (ERRORS, process.stderr))
        ]
        for reader in readers:
            reader.start()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        sign = next((each for each in self.config["Env"] if each.startswith(f"{LAUNCH_VARIABLE}=")), "no sign")
        end_process_tree(sign, process.pid, 10.0)
        code = process.wait()
        for reader in readers:
            reader.join(10.0)
        with self.changed:
            self.exit_code = code if code >= 0 else 128 - code
            self.status, self.finished_at = "exited", _now()
            self.changed.notify_all()
        self._tell(self, "die")

    # Its log

    def _read(self, stream: int, pipe: IO[bytes]) -> None:
        rest = b""
        while data := os.read(pipe.fileno(), 64 << 10):
            *whole, rest = (rest + data).split(b"\n")
            for line in whole:
                self._keep(stream, line + b"\n")
            if len(rest) > PIECE:
                self._keep(stream, rest)
                rest = b""
        self._keep(stream, rest)
        pipe.close()

    def _keep(self, stream: int, data: bytes) -> None:
        most = self._most_bytes()
        with self.changed:
            for start in range(0, len(data), PIECE):
                self.log.append((stream, data[start : start + PIECE]))
            self._log_bytes += len(data)
            while self._log_bytes > most:
                self._log_bytes -= len(self.log.popleft()[1])
                self._dropped += 1
            self.changed.notify_all()

    def _most_bytes(self) -> int:
        told = self.config.get("HostConfig", {}).get("LogConfig", {}).get("Config", {})
        return int(told.get("max-size", "10m").removesuffix("m")) * _MB * int(told.get("max-file", "1"))

    def batches(self, tail: str, follow: bool) -> Iterator[list[tuple[int, bytes]]]:
        """Pieces of its log, from the last ones on."""
        with self.changed:
            place = self._dropped if tail == "all" else max(self._dropped, self._dropped + len(self.log) - int(tail))
        while True:
            with self.changed:
                is_over = not (follow and self.is_running)
                kept = list(self.log)[max(0, place - self._dropped) :]
                place = self._dropped + len(self.log)
                if not kept and not is_over:
                    self.changed.wait(1.0)
            for start in range(0, len(kept), BATCH):
                yield kept[start : start + BATCH]
            if is_over:
                return

    # What is told of it

    def inspected(self) -> dict[str, Any]:
        return {
            "Id": self.id,
            "Created": _text(self.created),
            "Path": self.command[0],
            "Args": self.command[1:],
            "State": {
                "Status": self.status,
                "Running": self.is_running,
                "Paused": False,
                "Restarting": False,
                "OOMKilled": False,
                "Dead": False,
                "Pid": self.pid,
                "ExitCode": self.exit_code,
                "Error": self.error,
                "StartedAt": self.started_at,
                "FinishedAt": self.finished_at,
            },
            "Image": "sha256:" + "0" * 64,
            "Name": f"/{self.name}",
            "RestartCount": 0,
            "Config": {name: value for name, value in self.config.items() if name != "HostConfig"},
            "HostConfig": self.config.get("HostConfig", {}),
        }

    def summary(self) -> dict[str, Any]:
        return {
            "Id": self.id,
            "Names": [f"/{self.name}"],
            "Image": self.config["Image"],
            "ImageID": "sha256:" + "0" * 64,
            "Command": " ".join(self.command),
            "Created": int(self.created.timestamp()),
            "State": self.status,
            "Status": self.status.title(),
            "Ports": [],
            "Labels": self.config["Labels"],
        }


def _cannot_run(program: str) -> tuple[int, str]:
    if "/" not in program:
        return 127, f'"{program}": executable file not found in $PATH'
    if not os.path.exists(program):
        return 127, f'"{program}": stat {program}: no such file or directory'
    return 126, f'"{program}": permission denied'


def _now() -> str:
    return _text(datetime.now(UTC))


def _text(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
