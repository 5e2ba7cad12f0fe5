"""Containers and their engine: what can happen to them beside what every launcher has to stand."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from tests.support.docker_engine.interface import CONTAINER_CONFIG, breach
from tests.support.docker_engine.server import TestEngine
from tests.support.launchers import IMAGE, LONG_S, SLEEP, Rig

from towpath.errors import CannotLaunch, EngineRefused, LauncherAway
from towpath.supervision.launchers.docker import DockerEngine, DockerLauncher, DockerOptions, container_config
from towpath.supervision.launchers.launcher import (
    LAUNCH_VARIABLE,
    LaunchSpec,
    LaunchState,
    LaunchStatus,
    LogLimits,
    ProcessLimits,
)
from towpath.testing.clock import wait_until

SPEC = LaunchSpec("orders", 7, "abc", ("towpath", "run", "orders:flow"))


@pytest.fixture
def rig(docker_engine: TestEngine) -> Iterator[Rig]:
    """Always on the test engine: a real one cannot be made to fail."""
    rig = Rig(lambda: launcher(docker_engine))
    yield rig
    docker_engine.delays_s.clear()
    docker_engine.refused.clear()
    rig.end()


def launcher(engine: TestEngine, timeout_s: float = LONG_S, **options: Any) -> DockerLauncher:
    told = {"cluster": "test", "image": IMAGE, **options}
    return DockerLauncher(DockerEngine(engine.path, timeout_s), DockerOptions(**told))


# What is asked of the engine


def test_a_container_is_made_from_all_that_is_told() -> None:
    spec = LaunchSpec(
        duty="orders",
        launch=7,
        launch_id="abc",
        command=("towpath", "run", "orders:flow"),
        environment={"COLOUR": "blue"},
        directory=Path("/srv"),
        limits=ProcessLimits(memory_mb=512, cpu_s=60, open_files=1024, processes=50),
        log=LogLimits(file_mb=5, files=4),
        labels={"team": "data"},
        image="towpath:1",
    )
    options = DockerOptions("here", "other", "backend", ("/etc/towpath:/etc/towpath:ro", "state:/var"), "1000:1000")
    config = container_config(spec, options)
    assert breach(CONTAINER_CONFIG, config) is None
    assert config == {
        "Image": "towpath:1",
        "Entrypoint": ["towpath", "run", "orders:flow"],
        "Cmd": [],
        "Env": ["COLOUR=blue", f"{LAUNCH_VARIABLE}=orders:7:abc"],
        "Labels": {
            "team": "data",
            "towpath.cluster": "here",
            "towpath.duty": "orders",
            "towpath.launch": "7",
            "towpath.launch-id": "abc",
        },
        "User": "1000:1000",
        "Tty": False,
        "OpenStdin": False,
        "StopSignal": "SIGTERM",
        "WorkingDir": "/srv",
        "HostConfig": {
            "RestartPolicy": {"Name": "no"},
            "AutoRemove": False,
            "Init": True,
            "LogConfig": {"Type": "json-file", "Config": {"max-size": "5m", "max-file": "4"}},
            "Memory": 512 << 20,
            "MemorySwap": 512 << 20,
            "PidsLimit": 50,
            "Ulimits": [{"Name": "cpu", "Soft": 60, "Hard": 65}, {"Name": "nofile", "Soft": 1024, "Hard": 1024}],
            "Binds": ["/etc/towpath:/etc/towpath:ro", "state:/var"],
            "NetworkMode": "backend",
        },
    }


def test_what_is_not_told_is_left_to_the_engine() -> None:
    config = container_config(SPEC, DockerOptions(image="towpath:1"))
    assert breach(CONTAINER_CONFIG, config) is None
    assert not {"WorkingDir"} & set(config)
    assert not {"Memory", "PidsLimit", "Ulimits", "Binds", "NetworkMode"} & set(config["HostConfig"])


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"Imaeg": "x"}, "Imaeg"),
        ({"HostConfig": {"memory": 1}}, "memory"),
        ({"Env": ["COLOUR"]}, "COLOUR"),
        ({"HostConfig": {"RestartPolicy": {"Name": "never"}}}, "never"),
        ({"HostConfig": {"Binds": ["relative:path"]}}, "relative:path"),
    ],
)
def test_the_test_engine_finds_what_the_engine_would_not_understand(config: dict[str, Any], says: str) -> None:
    assert says in (breach(CONTAINER_CONFIG, config) or "")


@pytest.mark.parametrize(
    ("newest", "oldest", "taken"),
    [((1, 41), (1, 12), "1.41"), ((1, 47), (1, 24), "1.47"), ((1, 52), (1, 44), "1.47"), ((2, 3), (2, 0), "2.0")],
)
def test_the_version_is_one_that_the_engine_understands(
    docker_engine: TestEngine, newest: tuple[int, int], oldest: tuple[int, int], taken: str
) -> None:
    docker_engine.newest, docker_engine.oldest = newest, oldest
    engine = DockerEngine(docker_engine.path)
    assert engine.containers(["no-such-label"]) == []
    assert engine._version == taken


def test_an_engine_that_is_too_old_is_told(docker_engine: TestEngine) -> None:
    docker_engine.newest = (1, 40)
    with pytest.raises(CannotLaunch, match=r"1\.40 .*1\.41"):
        launcher(docker_engine).start(SPEC)


# Engines that fail


def test_an_engine_that_is_away_is_told_with_what_to_do(docker_engine: TestEngine, rig: Rig) -> None:
    spec = rig.spec()
    handle = rig.launcher.start(spec)
    docker_engine.stop()
    calls = [
        lambda: rig.make().start(spec),
        lambda: rig.launcher.start(rig.spec()),
        lambda: rig.launcher.find(spec.launch_id),
        lambda: rig.launcher.look(handle),
        lambda: rig.launcher.wait([handle], 1.0),
        lambda: rig.launcher.stop(handle, 1.0),
        lambda: rig.launcher.kill(handle),
        lambda: list(rig.launcher.logs(handle)),
        lambda: rig.launcher.forget(handle),
        lambda: rig.launcher.handles(),
    ]
    for call in calls:
        with pytest.raises(LauncherAway, match=r"docker\.sock"):
            call()
    docker_engine.start()
    assert rig.launcher.look(handle).is_running
    assert rig.launcher.start(spec) == handle


def test_who_waits_or_reads_hears_when_the_engine_goes_away(docker_engine: TestEngine, rig: Rig) -> None:
    handle = rig.start(f"echo ready; {SLEEP}")
    reading = rig.other.logs(handle, follow=True)
    assert next(reading) == "ready"
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(rig.other.wait, [handle], LONG_S)
        wait_until(lambda: "events" in docker_engine.asked and docker_engine.asked[-1] == "list", LONG_S)
        docker_engine.stop()
        with pytest.raises(LauncherAway):
            waiting.result(LONG_S)
    with pytest.raises(LauncherAway):
        list(reading)
    docker_engine.start()


def test_a_user_who_may_not_use_the_engine_is_told_how_to(docker_engine: TestEngine) -> None:
    engine = DockerEngine(docker_engine.path)
    with pytest.raises(LauncherAway, match=r"\(docker\)"), engine._connected(1.0):
        raise PermissionError(13, "Permission denied")


def test_an_answer_that_takes_too_long_leaves_it_open_and_is_not_asked_for_twice(
    docker_engine: TestEngine, rig: Rig
) -> None:
    """The engine may do late what nobody waits for any more."""
    docker_engine.delays_s["start"] = 1.0
    spec = rig.spec(f"echo ready; {SLEEP}")
    with pytest.raises(LauncherAway, match=r"0\.3 s"):
        launcher(docker_engine, timeout_s=0.3).start(spec)
    handle = rig.launcher.start(spec)
    wait_until(lambda: rig.other.look(handle).is_running, LONG_S)
    rig.says(handle, "ready")
    assert docker_engine.asked.count("start") == 1


def test_what_was_ended_while_its_start_was_under_way_does_not_run(docker_engine: TestEngine, rig: Rig) -> None:
    go_on = docker_engine.held["start"] = threading.Event()
    spec = rig.spec()
    with pytest.raises(LauncherAway):
        launcher(docker_engine, timeout_s=2.0).start(spec)
    handle = rig.other.find(spec.launch_id)
    assert handle is not None
    assert rig.other.look(handle).state is LaunchState.UNKNOWN
    rig.other.kill(handle)
    assert rig.other.look(handle).state is LaunchState.ENDED
    go_on.set()
    wait_until(lambda: docker_engine.answered("start"), LONG_S)
    assert rig.other.look(handle).state is LaunchState.ENDED
    assert rig.kin(spec) == []


def test_what_is_stopped_before_it_was_begun_never_begins(docker_engine: TestEngine, rig: Rig) -> None:
    spec = rig.spec()
    DockerEngine(docker_engine.path).create(
        f"towpath-orders-{spec.launch_id}-new", container_config(spec, DockerOptions("test", IMAGE))
    )
    handle = rig.other.find(spec.launch_id)
    assert handle is not None
    rig.other.stop(handle, LONG_S)
    assert rig.other.look(handle).state is LaunchState.ENDED
    assert rig.launcher.start(spec) == handle
    assert rig.other.look(handle).state is LaunchState.ENDED
    assert list(rig.other.logs(handle)) == []


@pytest.mark.parametrize("operation", ["create", "rename", "start", "inspect", "list"])
def test_an_engine_that_is_in_trouble_is_worth_another_try(docker_engine: TestEngine, rig: Rig, operation: str) -> None:
    spec = rig.spec("echo once")
    docker_engine.refused[operation] = (500, "no space left on device")
    with pytest.raises(EngineRefused) as caught:
        rig.launcher.start(spec)
        rig.launcher.find(spec.launch_id)
    assert (caught.value.status, caught.value.says) == (500, "no space left on device")
    docker_engine.refused.clear()
    handle = rig.launcher.start(spec)
    if operation == "start":  # nobody can know that it did not begin
        assert rig.other.look(handle).state is LaunchState.UNKNOWN
        rig.other.kill(handle)
    rig.ended(handle)
    assert rig.lines(handle) == ([] if operation == "start" else ["once"])


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\noops",
    ],
)
def test_an_answer_that_is_no_answer_is_an_engine_that_is_away(answer: bytes) -> None:
    with (
        TemporaryDirectory() as home,
        answering(Path(home, "docker.sock"), answer) as path,
        pytest.raises(LauncherAway),
    ):
        DockerEngine(path, 5.0).containers([])


@contextmanager
def answering(path: Path, answer: bytes) -> Iterator[Path]:
    """A socket on which each question gets this answer."""

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(1 << 16)
                connection.sendall(answer)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield path
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


# What cannot be started


def test_an_image_that_is_not_there_is_told_with_what_to_do(rig: Rig) -> None:
    spec = rig.spec(image="no/such:image")
    with pytest.raises(CannotLaunch, match="docker pull no/such:image"):
        rig.launcher.start(spec)
    assert rig.other.find(spec.launch_id) is None


def test_what_the_engine_does_not_take_is_told_in_its_words(docker_engine: TestEngine, rig: Rig) -> None:
    docker_engine.refused["create"] = (400, "invalid mount config for type bind: bind source path does not exist")
    with pytest.raises(CannotLaunch, match="invalid mount config"):
        rig.launcher.start(rig.spec())


def test_an_image_has_to_be_named(docker_engine: TestEngine) -> None:
    with pytest.raises(CannotLaunch, match="image"):
        launcher(docker_engine, image="").start(SPEC)


@pytest.mark.parametrize("suffix", ["", "-new"])
def test_a_stranger_of_the_same_name_is_left_alone(docker_engine: TestEngine, rig: Rig, suffix: str) -> None:
    spec = rig.spec()
    name = f"towpath-{spec.duty}-{spec.launch_id}{suffix}"
    engine = DockerEngine(docker_engine.path)
    engine.create(name, {"Image": IMAGE, "Entrypoint": ["true"], "Cmd": [], "Env": [], "Labels": {"of": "others"}})
    with pytest.raises(CannotLaunch, match=name):
        rig.launcher.start(spec)
    handle = f"{spec.duty}/{spec.launch_id}"
    assert rig.launcher.look(handle).state is LaunchState.UNKNOWN
    rig.launcher.kill(handle)
    rig.launcher.forget(handle)
    assert (engine.inspect(name) or {})["State"]["Status"] == "created"
    assert rig.launcher.handles() == []
    engine.remove(name)


def test_several_towpaths_may_share_an_engine(docker_engine: TestEngine, rig: Rig) -> None:
    spec = rig.spec()
    handle = rig.launcher.start(spec)
    others = launcher(docker_engine, cluster="other")
    assert others.handles() == []
    assert others.find(spec.launch_id) is None
    assert others.wait([handle], 0.0) == [handle]
    assert rig.launcher.look(handle).is_running


# What the engine says


@pytest.mark.parametrize(
    ("state", "looked"),
    [
        ({"Status": "running", "Pid": 12}, LaunchStatus(LaunchState.RUNNING, pid=12)),
        ({"Status": "paused", "Pid": 12}, LaunchStatus(LaunchState.RUNNING, pid=12)),
        ({"Status": "restarting", "Pid": 0}, LaunchStatus(LaunchState.RUNNING)),
        ({"Status": "created", "Error": ""}, LaunchStatus(LaunchState.UNKNOWN)),
        ({"Status": "created", "Error": "no such mount"}, LaunchStatus(LaunchState.ENDED, reason="no such mount")),
        ({"Status": "exited", "ExitCode": 3}, LaunchStatus(LaunchState.ENDED, exit_code=3)),
        ({"Status": "dead", "ExitCode": 128}, LaunchStatus(LaunchState.ENDED, exit_code=128)),
        ({"Status": "exited", "ExitCode": 143}, LaunchStatus(LaunchState.ENDED, signal=15)),
        ({"Status": "exited", "ExitCode": 255}, LaunchStatus(LaunchState.ENDED, exit_code=255)),
        (
            {"Status": "exited", "ExitCode": 137, "OOMKilled": True},
            LaunchStatus(LaunchState.ENDED, signal=9, reason="it had used up its memory"),
        ),
    ],
)
def test_the_states_of_an_engine_are_these(
    docker_engine: TestEngine, rig: Rig, state: dict[str, Any], looked: LaunchStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {"State": state, "Config": {"Labels": {"towpath.cluster": "test"}}}
    monkeypatch.setattr(DockerEngine, "inspect", lambda self, name: None if "-ne" in name else told)
    assert rig.launcher.look("orders/abc") == looked
    monkeypatch.undo()


def test_lines_of_output_are_not_cut_by_lines_of_errors(rig: Rig) -> None:
    handle = rig.start("printf 'one '; echo error >&2; sleep 0.2; echo two; printf 'half' >&2")
    rig.ended(handle)
    assert sorted(rig.lines(handle)) == ["error", "half", "one two"]


def test_stopping_does_not_wait_for_the_end(rig: Rig) -> None:
    handle = rig.start(f"trap '' TERM; echo ready; {SLEEP}")
    rig.says(handle, "ready")
    rig.launcher.stop(handle, 3600)
    assert rig.launcher.look(handle).is_running
    rig.launcher.kill(handle)
