"""Containers of a Docker Engine.

The name of a container says how far its launch has come, since to give a name is the only thing that an engine does for
one of many who ask and refuses to all others:

    towpath-orders-ID-new     it is made; who renames it may start it, and nobody else
    towpath-orders-ID         it is begun: it is about to be started, runs, or has ended
    towpath-orders-ID-never   it was ended before it was started; who wants to start it does not find it any more

Labels say which launch it is. A container is started once; the engine is told not to do it again by itself either.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from towpath.crash import CrashPoint, here
from towpath.errors import CannotLaunch, EngineRefused, LauncherAway, StillRunning, UnknownLaunch
from towpath.supervision.launchers.docker_container import CLUSTER, DUTY, LAUNCH_ID, DockerOptions, container_config
from towpath.supervision.launchers.docker_engine import BAD_REQUEST, CONFLICT, NOT_FOUND, DockerEngine
from towpath.supervision.launchers.launch_spec import LaunchSpec, check_launch_name
from towpath.supervision.launchers.launcher import Looked, LookedState
from towpath.supervision.launchers.lines import Lines

logger = logging.getLogger(__name__)

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

    def look(self, handle: str) -> Looked:
        """What the engine says of its container."""
        name = _name(*_parse(handle))
        if (found := self._inspect(name)) is not None:
            return _looked(found["State"])
        if (found := self._inspect(name + NEVER)) is not None and found["State"]["Status"] not in RUNNING:
            return Looked(LookedState.ENDED, reason="it was ended before it had begun")
        return Looked(LookedState.UNKNOWN) if found is None else _looked(found["State"])

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
        elif looked.state is LookedState.UNKNOWN:
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
        if (found := self._inspect(name)) is not None and _is_about_to_start(found):
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


@contextmanager
def _if_there() -> Iterator[None]:
    """It may be gone, or have ended, since we looked."""
    try:
        yield
    except EngineRefused as error:
        if error.status not in (NOT_FOUND, CONFLICT):
            raise


def _looked(state: dict[str, Any]) -> Looked:
    if state["Status"] in RUNNING:
        return Looked(LookedState.RUNNING, pid=state["Pid"] or None)
    if state["Status"] == "created":
        problem = state.get("Error")
        return Looked(LookedState.ENDED, reason=problem) if problem else Looked(LookedState.UNKNOWN)
    code = state["ExitCode"]
    reason = "it had used up its memory" if state.get("OOMKilled") else state.get("Error") or None
    if SIGNAL_BASE < code <= SIGNAL_BASE + LAST_SIGNAL:
        return Looked(LookedState.ENDED, signal=code - SIGNAL_BASE, reason=reason)
    return Looked(LookedState.ENDED, exit_code=code, reason=reason)


def _problem(found: dict[str, Any]) -> str:
    """Why it could not be started; empty: it was, or nobody has tried."""
    state = found.get("State", {})
    return str(state.get("Error", "")) if state.get("Status") == "created" else ""


def _is_about_to_start(found: dict[str, Any]) -> bool:
    return found["State"]["Status"] == "created" and not _problem(found)


def _lines(pieces: Iterator[tuple[int, bytes]]) -> Iterator[str]:
    """Lines of output and of errors; what is written to one does not cut a line of the other."""
    streams: dict[int, Lines] = {}
    for stream, data in pieces:
        yield from streams.setdefault(stream, Lines()).feed(data)
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
