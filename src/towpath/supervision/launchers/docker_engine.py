"""The HTTP interface of a Docker Engine, over its Unix socket, as far as containers are started with it.

Paths, parameters and status codes are those of the Engine's published interface. What is used of it has been the same
since version 1.41 (Docker 20.10); of the versions that an engine takes the one that it calls its own is asked for, up
to the newest that is known here.
"""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from towpath.errors import CannotLaunch, EngineRefused, LauncherAway

OLDEST, NEWEST = (1, 41), (1, 47)
TIMEOUT_S = 30.0
CHUNK = 64 << 10
HEADER_BYTES = 8  # before each piece of a log: whose output it is, and its length
BAD_REQUEST, NOT_FOUND, CONFLICT = 400, 404, 409


class DockerEngine:
    """One call a method. Raises `LauncherAway` when the engine is not there, and `EngineRefused` when it refuses."""

    def __init__(self, path: Path, timeout_s: float = TIMEOUT_S) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self._version: str | None = None

    # Containers

    def create(self, name: str, config: Mapping[str, Any]) -> None:
        self._ask("POST", "/containers/create", {"name": name}, config)

    def rename(self, container: str, name: str) -> None:
        self._ask("POST", f"{_at(container)}/rename", {"name": name})

    def start(self, container: str) -> None:
        self._ask("POST", f"{_at(container)}/start")

    def restart(self, container: str, grace_s: int) -> None:
        """Launches are never started again; this is for containers that were made by others."""
        self._ask("POST", f"{_at(container)}/restart", {"t": grace_s}, timeout_s=self._timeout_s + grace_s)

    def stop(self, container: str, grace_s: int) -> None:
        """Returns when it has ended."""
        self._ask("POST", f"{_at(container)}/stop", {"t": grace_s}, timeout_s=self._timeout_s + grace_s)

    def kill(self, container: str) -> None:
        self._ask("POST", f"{_at(container)}/kill", {"signal": "SIGKILL"})

    def wait(self, container: str, timeout_s: float) -> None:
        """Until it does not run."""
        self._ask("POST", f"{_at(container)}/wait", {"condition": "not-running"}, timeout_s=timeout_s)

    def remove(self, container: str) -> None:
        self._ask("DELETE", _at(container), {"v": "true"})

    def inspect(self, container: str) -> dict[str, Any] | None:
        """All about it; None: there is none of that name."""
        try:
            found: dict[str, Any] = self._ask("GET", f"{_at(container)}/json")
        except EngineRefused as error:
            if error.status == NOT_FOUND:
                return None
            raise
        return found

    def containers(self, labels: Sequence[str]) -> list[dict[str, Any]]:
        """Those that have all of these labels, also if they do not run."""
        found: list[dict[str, Any]] = self._ask("GET", "/containers/json", {"all": "true", **_filters(label=labels)})
        return found

    def logs(self, container: str, *, tail: str, follow: bool) -> Iterator[tuple[int, bytes]]:
        """Pieces of its output, each with a number for whose: 1 of output, 2 of errors."""
        path = f"{_at(container)}/logs"
        query = {"stdout": "true", "stderr": "true", "tail": tail, "follow": str(follow).lower()}
        with self._connected(None if follow else self._timeout_s) as connection:
            connection.request("GET", self._url(path, query))
            answer = _check(f"GET {path}", connection.getresponse())
            while len(header := answer.read(HEADER_BYTES)) == HEADER_BYTES:
                left = int.from_bytes(header[4:])
                while left and (data := answer.read(min(left, CHUNK))):
                    left -= len(data)
                    yield header[0], data

    @contextmanager
    def ends(self, labels: Sequence[str]) -> Iterator[EndsHeard]:
        """Listen from now on to the ends of containers that have all of these labels."""
        query = _filters(type=["container"], event=["die", "destroy"], label=labels)
        with self._connected(self._timeout_s) as connection:
            connection.request("GET", self._url("/events", query))
            yield EndsHeard(connection, _check("GET /events", connection.getresponse()))

    # Asking

    def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
    ) -> Any:
        with self._connected(timeout_s or self._timeout_s) as connection:
            text = None if body is None else json.dumps(body)
            connection.request(method, self._url(path, query), text, {"Content-Type": "application/json"})
            answer = _check(f"{method} {path}", connection.getresponse()).read()
        return json.loads(answer) if answer.strip() else None

    def _url(self, path: str, query: Mapping[str, Any] | None) -> str:
        if self._version is None:
            self._version = self._agree()
        return f"/v{self._version}{path}" + (f"?{urlencode(query)}" if query else "")

    def _agree(self) -> str:
        """The version that both understand."""
        with self._connected(self._timeout_s) as connection:
            connection.request("GET", "/version")
            said = json.loads(_check("GET /version", connection.getresponse()).read())
        newest, oldest = _number(said["ApiVersion"]), _number(said.get("MinAPIVersion", "1.0"))
        if newest < OLDEST:
            raise CannotLaunch(
                f"the Docker Engine at {self._path} speaks version {said['ApiVersion']} of its interface; "
                f"at least {OLDEST[0]}.{OLDEST[1]} is needed (Docker 20.10)"
            )
        return "{}.{}".format(*max(min(newest, NEWEST), oldest))

    @contextmanager
    def _connected(self, timeout_s: float | None) -> Iterator[http.client.HTTPConnection]:
        """A connection for one question, whose failures say what to do."""
        connection = _UnixConnection(self._path, timeout_s)
        try:
            yield connection
        except TimeoutError as error:
            raise LauncherAway(f"the Docker Engine at {self._path} did not answer within {timeout_s:g} s") from error
        except PermissionError as error:
            raise LauncherAway(
                f"this user may not use the Docker Engine at {self._path}: add it to the socket's group (docker)"
            ) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._version = None  # it may come back as another one
            raise LauncherAway(
                f"the Docker Engine at {self._path} is away ({str(error) or type(error).__name__}); is it running?"
            ) from error
        finally:
            connection.close()


class EndsHeard:
    """What is heard of the ends of containers, from the moment on at which it was opened."""

    def __init__(self, connection: http.client.HTTPConnection, answer: http.client.HTTPResponse) -> None:
        self._connection = connection
        self._answer = answer

    def wait(self, timeout_s: float) -> None:
        """Until a container ends, or the time is over."""
        assert self._connection.sock is not None  # noqa: S101
        self._connection.sock.settimeout(max(timeout_s, 0.001))
        try:
            line = self._answer.readline()
        except TimeoutError:
            return
        if not line:
            raise ConnectionResetError("it has stopped telling of the ends of containers")


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout_s: float | None) -> None:
        super().__init__("docker", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def _check(what: str, answer: http.client.HTTPResponse) -> http.client.HTTPResponse:
    if answer.status < 400:
        return answer
    told = answer.read()
    try:
        says = json.loads(told)["message"]
    except (ValueError, KeyError, TypeError):
        says = told.decode(errors="replace").strip() or answer.reason
    raise EngineRefused(what, answer.status, str(says))


def _at(container: str) -> str:
    return f"/containers/{quote(container, safe='')}"


def _filters(**filters: Sequence[str]) -> dict[str, str]:
    return {"filters": json.dumps({name: list(values) for name, values in filters.items()})}


def _number(version: str) -> tuple[int, int]:
    major, _, minor = version.partition(".")
    return int(major), int(minor or 0)
