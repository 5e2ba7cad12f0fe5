"""Launches as containers of a Docker Engine.

The name of a container says how far its launch has come, since to give a name is the only thing that an engine does for
one of many who ask and refuses to all others:

    towpath-orders-ID-new     it is made; who renames it may start it, and nobody else
    towpath-orders-ID         it is begun: it is about to be started, runs, or has ended
    towpath-orders-ID-never   it was ended before it was started; who wants to start it does not find it any more

Labels say which launch it is. A container is started once; the engine is told not to do it again by itself either.

`DockerEngine` speaks the Engine's HTTP interface over its Unix socket, as far as it is needed here. Paths, parameters
and status codes are those of the published interface, unchanged since version 1.41 (Docker 20.10). The version asked
for is the one that the engine calls its own, up to the newest that is known here.
"""

from __future__ import annotations

import http.client
import json
import logging
import math
import socket
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from towpath.core.crash import CrashPoint, here
from towpath.errors import CannotLaunch, EngineRefused, LauncherAway, StillRunning, UnknownLaunch
from towpath.supervision.launchers.keeper_home import CPU_GRACE_S, MB
from towpath.supervision.launchers.launcher import (
    LaunchSpec,
    LaunchState,
    LaunchStatus,
    ProcessLimits,
    check_launch_name,
)
from towpath.supervision.launchers.log_reader import LineSplitter

logger = logging.getLogger(__name__)

CLUSTER, DUTY, LAUNCH, LAUNCH_ID = "towpath.cluster", "towpath.duty", "towpath.launch", "towpath.launch-id"
OLDEST, NEWEST = (1, 41), (1, 47)
TIMEOUT_S = 30.0
CHUNK = 64 << 10
HEADER_BYTES = 8  # before each piece of a log: whose output it is, and its length
BAD_REQUEST, NOT_FOUND, CONFLICT = 400, 404, 409
RUNNING = ("running", "paused", "restarting")
NEW, NEVER = "-new", "-never"
SIGNAL_BASE, LAST_SIGNAL = 128, 64  # the engine tells a signal as an exit code
KILL_TIMEOUT_S = 15.0


class DockerLauncher:
    """Makes a container for each launch. A handle is `DUTY/LAUNCH_ID`."""

    name = "docker"

    def __init__(self, engine: DockerEngine, options: DockerOptions) -> None:
        self._engine = engine
        self._options = options
        self._ours = f"{CLUSTER}={options.cluster}"

    # Starting

    def start(self, spec: LaunchSpec) -> str:
        """Make the container, and start it unless somebody has begun to; its handle."""
        handle, name = f"{spec.duty}/{spec.launch_id}", _name(spec.duty, spec.launch_id)
        config = container_config(spec, self._options)
        self._refuse_strangers(name, name + NEW, name + NEVER)
        if self._inspect(name) is None and self._inspect(name + NEVER) is None:
            self._create(name + NEW, spec, config)
            here(CrashPoint.CONTAINER_CREATED)
            if self._begin(name):
                here(CrashPoint.CONTAINER_BEGUN)
                self._start(name)
                here(CrashPoint.CONTAINER_STARTED)
        if (found := self._inspect(name)) is not None and (problem := _problem(found)):
            raise CannotLaunch(f"{spec.duty} cannot be started: {problem}")
        return handle

    def _create(self, name: str, spec: LaunchSpec, config: dict[str, Any]) -> None:
        try:
            self._engine.create(name, config)
        except EngineRefused as error:
            image = config["Image"]
            if error.status == NOT_FOUND:
                text = f"{spec.duty} cannot be started: the engine has no image {image!r}; try `docker pull {image}`"
                raise CannotLaunch(text) from error
            if error.status == BAD_REQUEST:
                raise CannotLaunch(f"{spec.duty} cannot be started: {error.says}") from error
            if error.status != CONFLICT:  # somebody else has made it
                raise

    def _begin(self, name: str) -> bool:
        """Whether it is ours to start it, or to see that nobody does."""
        try:
            self._engine.rename(name + NEW, name)
        except EngineRefused as error:
            if error.status == CONFLICT:  # begun by another, who had made it before us: there is one too many
                self._remove(name + NEW)
            elif error.status != NOT_FOUND:
                raise
            return False
        return True

    def _start(self, name: str) -> None:
        try:
            self._engine.start(name)
        except EngineRefused as error:
            # Not found: it was ended meanwhile. Otherwise the engine remembers why it could not be started.
            if error.status != NOT_FOUND and not _problem(self._inspect(name) or {}):
                raise

    # Looking

    def find(self, launch_id: str) -> str | None:
        """The handle of a launch for which there is a container."""
        check_launch_name("launch id", launch_id)
        found = self._engine.containers([self._ours, f"{LAUNCH_ID}={launch_id}"])
        return _handle(found[0]) if found else None

    def handles(self) -> list[str]:
        """Of all launches that have a container."""
        return sorted({_handle(each) for each in self._engine.containers([self._ours])})

    def look(self, handle: str) -> LaunchStatus:
        """What the engine says of its container."""
        name = _name(*_parse(handle))
        if (found := self._inspect(name)) is not None:
            return _looked(found["State"])
        if (found := self._inspect(name + NEVER)) is not None and found["State"]["Status"] not in RUNNING:
            return LaunchStatus(LaunchState.ENDED, reason="it was ended before it had begun")
        return LaunchStatus(LaunchState.UNKNOWN) if found is None else _looked(found["State"])

    def wait(self, handles: Collection[str], timeout_s: float) -> list[str]:
        """Those that run no more, as soon as the engine tells of the end of one."""
        deadline = time.monotonic() + timeout_s
        with self._engine.ends([self._ours]) as ends:
            while True:
                running = {_handle(each) for each in self._engine.containers([self._ours]) if each["State"] in RUNNING}
                ended = [handle for handle in handles if handle not in running]
                left_s = deadline - time.monotonic()
                if ended or left_s <= 0:
                    return ended
                ends.wait(left_s)

    # Ending

    def stop(self, handle: str, grace_s: float) -> None:
        """The engine asks it, and kills it when it takes longer; in whole seconds."""
        looked = self.look(handle)
        if looked.is_running:
            given = (_name(*_parse(handle)), math.ceil(max(0.0, grace_s)))
            threading.Thread(target=self._stop, args=given, name=f"stop {handle}", daemon=True).start()
        elif looked.state is LaunchState.UNKNOWN:
            self.kill(handle)

    def _stop(self, name: str, grace_s: int) -> None:
        """Waits for the answer: engines 23.0 to 24.0.2 kill a container at once when who has asked for its end goes."""
        try:
            with _if_there():
                self._engine.stop(name, grace_s)
        except LauncherAway as error:
            logger.warning("%s was asked to end, but %s", name, error)

    def kill(self, handle: str) -> None:
        """Also what is about to be started, by whomever."""
        name = _name(*_parse(handle))
        if self._inspect(name + NEW) is not None and self._begin(name):
            here(CrashPoint.CONTAINER_BEGUN)
        found = self._inspect(name)
        if found is not None and found["State"]["Status"] == "created" and not _problem(found):  # about to be started
            with _if_there():
                self._engine.rename(name, name + NEVER)
        for each in (name, name + NEVER):
            self._kill(each)
        if self.look(handle).is_running:
            raise LauncherAway(f"the container {name} does not end, though the engine has killed it")

    def _kill(self, name: str) -> None:
        found = self._inspect(name)
        if found is not None and found["State"]["Status"] in RUNNING:
            with _if_there():
                self._engine.kill(name)
            with _if_there():
                self._engine.wait(name, KILL_TIMEOUT_S)

    # What is kept

    def logs(self, handle: str, *, tail: int | None = None, follow: bool = False) -> Iterator[str]:
        """What it wrote, as the engine has kept it."""
        name = _name(*_parse(handle))
        name = next((each for each in (name, name + NEVER, name + NEW) if self._inspect(each) is not None), "")
        if not name:
            raise UnknownLaunch(f"{handle} is not known here: it was never started on this host, or is forgotten")
        return _lines(self._engine.logs(name, tail="all" if tail is None else str(tail), follow=follow))

    def forget(self, handle: str) -> None:
        """Delete its container."""
        if self.look(handle).is_running:
            raise StillRunning(f"{handle} runs; stop it first")
        name = _name(*_parse(handle))
        for each in (name, name + NEVER, name + NEW):
            if self._inspect(each) is not None:
                self._remove(each)

    def _remove(self, name: str) -> None:
        with _if_there():
            self._engine.remove(name)

    def _inspect(self, name: str) -> dict[str, Any] | None:
        """The container of that name, if it is ours."""
        found = self._engine.inspect(name)
        return found if found is not None and self._is_ours(found) else None

    def _is_ours(self, found: dict[str, Any]) -> bool:
        return (found["Config"].get("Labels") or {}).get(CLUSTER) == self._options.cluster

    def _refuse_strangers(self, *names: str) -> None:
        for name in names:
            found = self._engine.inspect(name)
            if found is not None and not self._is_ours(found):
                text = f"a container that is not of this cluster ({self._ours}) has the name {name}"
                raise CannotLaunch(f"{text}; rename or remove it")


@dataclass(frozen=True, slots=True)
class DockerOptions:
    """What all containers of a launcher have in common."""

    cluster: str = "towpath"
    """Tells the containers of several Towpaths apart that share an engine."""
    image: str = ""
    """Of launches that name none."""
    network: str = ""
    """A network, or `host`; empty: the engine's own choice."""
    mounts: tuple[str, ...] = ()
    """As `/on/the/host:/in/the/container`, or `volume:/in/the/container`; with `:ro` only to be read."""
    user: str = ""
    """As `uid:gid`; empty: the image's own."""


def container_config(spec: LaunchSpec, options: DockerOptions) -> dict[str, Any]:
    """As the engine takes it. Raises `CannotLaunch` when there is no image."""
    image = spec.image or options.image
    if not image:
        raise CannotLaunch(f"{spec.duty} cannot be started: say which image its container is made from")
    config: dict[str, Any] = {
        "Image": image,
        # All of the command: what the image would put before it, or behind it, is left out.
        "Entrypoint": list(spec.command),
        "Cmd": [],
        "Env": [f"{name}={value}" for name, value in spec.full_environment.items()],
        "Labels": {
            **spec.labels,
            CLUSTER: options.cluster,
            DUTY: spec.duty,
            LAUNCH: str(spec.launch),
            LAUNCH_ID: spec.launch_id,
        },
        "User": options.user,
        "Tty": False,
        "OpenStdin": False,
        "StopSignal": "SIGTERM",
        "HostConfig": _host_config(spec, options),
    }
    if spec.directory is not None:
        config["WorkingDir"] = str(spec.directory)
    return config


def _host_config(spec: LaunchSpec, options: DockerOptions) -> dict[str, Any]:
    config: dict[str, Any] = {
        "RestartPolicy": {"Name": "no"},
        "AutoRemove": False,
        "Init": True,  # as the first process of a container a program would not hear SIGTERM unless it asks for it
        "LogConfig": {
            "Type": "json-file",
            "Config": {"max-size": f"{spec.log.file_mb}m", "max-file": str(spec.log.files)},
        },
        **_limits(spec.limits),
    }
    if options.mounts:
        config["Binds"] = list(options.mounts)
    if options.network:
        config["NetworkMode"] = options.network
    return config


def _limits(limits: ProcessLimits) -> dict[str, Any]:
    config: dict[str, Any] = {}
    if limits.memory_mb is not None:
        config["Memory"] = config["MemorySwap"] = limits.memory_mb * MB
    if limits.processes is not None:
        config["PidsLimit"] = limits.processes
    ulimits = []
    if limits.cpu_s is not None:
        ulimits.append({"Name": "cpu", "Soft": limits.cpu_s, "Hard": limits.cpu_s + CPU_GRACE_S})
    if limits.open_files is not None:
        ulimits.append({"Name": "nofile", "Soft": limits.open_files, "Hard": limits.open_files})
    if ulimits:
        config["Ulimits"] = ulimits
    return config


@contextmanager
def _if_there() -> Iterator[None]:
    """It may be gone, or have ended, since we looked."""
    try:
        yield
    except EngineRefused as error:
        if error.status not in (NOT_FOUND, CONFLICT):
            raise


def _looked(state: dict[str, Any]) -> LaunchStatus:
    if state["Status"] in RUNNING:
        return LaunchStatus(LaunchState.RUNNING, pid=state["Pid"] or None)
    if state["Status"] == "created":
        problem = state.get("Error")
        return LaunchStatus(LaunchState.ENDED, reason=problem) if problem else LaunchStatus(LaunchState.UNKNOWN)
    code = state["ExitCode"]
    reason = "it had used up its memory" if state.get("OOMKilled") else state.get("Error") or None
    if SIGNAL_BASE < code <= SIGNAL_BASE + LAST_SIGNAL:
        return LaunchStatus(LaunchState.ENDED, signal=code - SIGNAL_BASE, reason=reason)
    return LaunchStatus(LaunchState.ENDED, exit_code=code, reason=reason)


def _problem(found: dict[str, Any]) -> str:
    """Why it could not be started; empty: it was, or nobody has tried."""
    state = found.get("State", {})
    return str(state.get("Error", "")) if state.get("Status") == "created" else ""


def _lines(pieces: Iterator[tuple[int, bytes]]) -> Iterator[str]:
    """Lines of output and of errors; what is written to one does not cut a line of the other."""
    streams: dict[int, LineSplitter] = {}
    for stream, data in pieces:
        yield from streams.setdefault(stream, LineSplitter()).feed(data)
    for lines in streams.values():
        yield from lines.end()


def _name(duty: str, launch_id: str) -> str:
    return f"towpath-{duty}-{launch_id}"


def _parse(handle: str) -> tuple[str, str]:
    duty, _, launch_id = handle.partition("/")
    check_launch_name("duty", duty)
    check_launch_name("launch id", launch_id)
    return duty, launch_id


def _handle(container: dict[str, Any]) -> str:
    labels = container["Labels"]
    return f"{labels[DUTY]}/{labels[LAUNCH_ID]}"


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
    def ends(self, labels: Sequence[str]) -> Iterator[ContainerEnds]:
        """Listen from now on to the ends of containers that have all of these labels."""
        query = _filters(type=["container"], event=["die", "destroy"], label=labels)
        with self._connected(self._timeout_s) as connection:
            connection.request("GET", self._url("/events", query))
            yield ContainerEnds(connection, _check("GET /events", connection.getresponse()))

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


class ContainerEnds:
    """Listens to the ends of containers, from the moment at which it was opened."""

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
