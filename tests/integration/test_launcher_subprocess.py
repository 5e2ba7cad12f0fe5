"""Subprocesses and their keepers: what can happen to them beside what every launcher has to stand."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import termios
import threading
import time
from array import array
from contextlib import suppress
from pathlib import Path

import pytest
from tests.support.launchers import LONG_S, PATHS, SLEEP, Rig

from towpath.errors import CannotLaunch, LauncherAway
from towpath.supervision.launchers import subprocess as subprocess_launcher
from towpath.supervision.launchers.keeper_home import LaunchHome
from towpath.supervision.launchers.launcher import LAUNCH_VARIABLE, LaunchSpec, LaunchState, LaunchStatus, LogLimits
from towpath.supervision.launchers.process_tree import born
from towpath.supervision.launchers.subprocess import SubprocessLauncher
from towpath.testing.clock import wait_until

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[2]
# The kernel tells the time of a birth by this clock: two within one beat look the same.
KERNEL_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
KEEPER_DIED = "its keeper was killed, and it died with it"


@pytest.fixture
def rig(subprocess_rig: Rig) -> Rig:
    return subprocess_rig


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "processes"


def home_of(directory: Path, spec: LaunchSpec) -> LaunchHome:
    return LaunchHome(directory / spec.duty / spec.launch_id)


# Keepers


def test_a_process_dies_with_its_keeper_and_so_does_what_it_started(rig: Rig) -> None:
    spec = rig.spec(f"sleep 600 & setsid sleep 600 & echo ready; {SLEEP}")
    handle = rig.launcher.start(spec)
    rig.says(handle, "ready")
    os.kill(rig.keeper(handle), signal.SIGKILL)
    assert rig.ended(handle) == LaunchStatus(LaunchState.ENDED, reason=KEEPER_DIED)
    assert rig.kin(spec) == []
    assert rig.lines(handle) == ["ready"]


def test_what_has_lost_the_sign_of_the_launch_dies_with_the_keeper_too(rig: Rig, tmp_path: Path) -> None:
    """As `sudo` and `env -i` take it away: it is still of the session."""
    there = tmp_path / "child"
    handle = rig.start(f"env -i sh -c 'echo $$ > {there}; exec sleep 600' & {SLEEP}")
    wait_until(lambda: there.exists() and there.read_text().strip(), LONG_S)
    child = int(there.read_text())
    os.kill(rig.keeper(handle), signal.SIGKILL)
    assert rig.ended(handle).reason == KEEPER_DIED
    assert born(child) == ""


def test_a_keeper_that_is_told_to_end_asks_its_process(rig: Rig) -> None:
    """As when the machine is shut down, and all are told."""
    handle = rig.start(f"trap 'exit 5' TERM; echo ready; {SLEEP}")
    rig.says(handle, "ready")
    for which in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGTERM):
        os.kill(rig.keeper(handle), which)
    assert rig.ended(handle).exit_code == 5


@pytest.mark.realtime
def test_a_keeper_that_stands_still_cannot_save_its_process(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess_launcher, "KILL_TIMEOUT_S", 0.5)
    spec = rig.spec()
    handle = rig.launcher.start(spec)
    os.kill(rig.keeper(handle), signal.SIGSTOP)
    assert rig.other.look(handle).is_running
    rig.other.kill(handle)
    assert rig.other.look(handle) == LaunchStatus(LaunchState.ENDED, reason=KEEPER_DIED)
    assert rig.kin(spec) == []


def test_a_number_that_is_another_process_by_now_is_left_alone(rig: Rig, directory: Path) -> None:
    """Numbers come round; only with the time of its birth is one nobody else's."""
    spec = rig.spec()
    handle = rig.launcher.start(spec)
    home = home_of(directory, spec)
    keeper = rig.keeper(handle)
    time.sleep(2 * KERNEL_TICK_S)
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as stranger:
        os.kill(keeper, signal.SIGKILL)
        wait_until(lambda: not home.is_kept, LONG_S)
        home.write_keeper({**(home.keeper or {}), "keeper": stranger.pid, "pid": stranger.pid})
        assert rig.other.wait([handle], LONG_S) == [handle]
        rig.other.stop(handle, 0.0)
        rig.other.kill(handle)
        assert rig.other.look(handle).state is LaunchState.ENDED
        assert stranger.poll() is None
        stranger.kill()


def test_nonsense_in_its_pipe_does_not_disturb_a_keeper(rig: Rig, directory: Path) -> None:
    spec = rig.spec(f"trap 'exit 5' TERM; echo ready; {SLEEP}")
    handle = rig.launcher.start(spec)
    rig.says(handle, "ready")
    for nonsense in ("stop soon", "stop", "\0\n\n", "dance", "stop nan", "stop -1"):
        assert home_of(directory, spec).tell(nonsense)
    rig.launcher.stop(handle, LONG_S)
    assert rig.ended(handle).exit_code == 5


def test_a_keeper_loads_little() -> None:
    """There is one for every process of a host."""
    program = "import sys, towpath.supervision.launchers.keeper; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    strangers = {name.partition(".")[0] for name in loaded} - set(sys.stdlib_module_names)
    assert {name for name in strangers if not name.startswith("_")} == {"towpath"}
    ours = {name for name in loaded if name.startswith("towpath.")}
    assert ours <= {"towpath.supervision", *(name for name in ours if name.startswith("towpath.supervision.launchers"))}


def test_ended_keepers_are_not_left_in_the_list_of_processes(rig: Rig) -> None:
    before = set(zombies())  # what another test has ended may be among them for a moment longer
    handles = [rig.start("exit 0") for _ in range(5)]
    for handle in handles:
        assert rig.launcher.wait([handle], LONG_S) == [handle]
    wait_until(lambda: rig.launcher.wait(handles, 0.0) and before.issuperset(zombies()), LONG_S)


def zombies() -> list[str]:
    """Children of this process that have ended and wait for it to take note."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = path.read_text(errors="replace").rpartition(")")[2].split()[:2]
            if state == "Z" and int(parent) == os.getpid():
                found.append(path.parent.name)
    return found


# What the process inherits


def test_nothing_of_the_starter_reaches_the_process(rig: Rig) -> None:
    """A signal that is ignored, a mask and an open file are passed on, unless somebody takes care."""
    program = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from towpath.supervision.launchers.launcher import LaunchSpec\n"
        "from towpath.supervision.launchers.subprocess import SubprocessLauncher\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGCHLD])\n"
        "for _ in range(20): os.set_inheritable(os.dup(0), True)\n"
        "script = 'grep -E \"^Sig(Blk|Ign)\" /proc/self/status; ls -1 /proc/self/fd | wc -l; echo done'\n"
        "spec = LaunchSpec('orders', 1, 'abc', ('sh', '-c', script), {'PATH': os.environ['PATH']}, Path('/'))\n"
        "SubprocessLauncher(Path(sys.argv[1])).start(spec)\n"
    )
    directory = rig.launcher._directory  # type: ignore[attr-defined]
    subprocess.run([sys.executable, "-c", program, str(directory)], check=True, stdin=subprocess.DEVNULL, cwd=ROOT)
    rig.ended("orders/abc")
    blocked, ignored, files, done = rig.lines("orders/abc")
    # Of those above 31 two are the C library's own, and nobody else can do anything about them.
    assert [int(mask.split()[1], 16) & 0x7FFF_FFFF for mask in (blocked, ignored)] == [0, 0]
    assert (files, done) == ("4", "done")


def test_a_keeper_has_not_the_sign_of_who_started_it(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Peers are launches themselves: when one dies, what it has started must not be taken for a part of it."""
    monkeypatch.setenv(LAUNCH_VARIABLE, "peer-1:3:abc")
    handle = rig.start()
    pids = [rig.keeper(handle), rig.other.look(handle).pid]
    assert all(b"peer-1:3:abc" not in Path(f"/proc/{pid}/environ").read_bytes() for pid in pids)


def test_what_leaves_the_launch_on_purpose_goes_on(rig: Rig, tmp_path: Path) -> None:
    """As spawned processes of actors do; and though it holds the output open, the end is told."""
    left = tmp_path / "left"
    inner = f"echo $$ > {left}.new; mv {left}.new {left}; exec sleep 600"
    handle = rig.start(
        f"env -u {LAUNCH_VARIABLE} setsid sh -c '{inner}' & until [ -e {left} ]; do sleep 0.05; done; exit 3"
    )
    assert rig.ended(handle).exit_code == 3
    pid = int(left.read_text())
    assert born(pid), "it was ended with the launch"
    os.kill(pid, signal.SIGKILL)


def test_closing_its_output_is_not_its_end(rig: Rig) -> None:
    handle = rig.start(f"trap 'exit 5' TERM; echo ready; exec >/dev/null 2>&1; {SLEEP}")
    rig.says(handle, "ready")
    assert rig.other.wait([handle], 0.3) == []
    rig.other.stop(handle, LONG_S)
    assert rig.ended(handle).exit_code == 5


# What cannot be started


def test_a_directory_that_is_not_there_is_named(rig: Rig, tmp_path: Path) -> None:
    with pytest.raises(CannotLaunch, match=f"{tmp_path}/none "):
        rig.start(directory=tmp_path / "none")
    (tmp_path / "file").touch()
    with pytest.raises(CannotLaunch, match="Not a directory"):
        rig.start(directory=tmp_path / "file")


def test_a_script_without_its_interpreter_is_told_from_one_that_is_not_there(rig: Rig, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o700)
    with pytest.raises(CannotLaunch, match="first line"):
        rig.start(command=(str(script),))
    script.write_bytes(b"\1\2\3")
    with pytest.raises(CannotLaunch, match="Exec format error"):
        rig.start(command=(str(script),))


def test_a_program_is_looked_for_in_the_path_that_it_is_given(rig: Rig, tmp_path: Path) -> None:
    script = tmp_path / "hello"
    script.write_text("#!/bin/sh\necho hello\n")
    script.chmod(0o700)
    handle = rig.start(command=("hello",), environment={"PATH": f"{tmp_path}:{PATHS['PATH']}"})
    rig.ended(handle)
    assert rig.lines(handle) == ["hello"]
    with pytest.raises(CannotLaunch, match="'hello'"):
        rig.start(command=("hello",), environment={"PATH": "/usr/bin"})


def test_too_many_arguments_are_told(rig: Rig) -> None:
    with pytest.raises(CannotLaunch, match="Argument list too long"):
        rig.start(command=("true", "x" * 3_000_000))


# Disks


def test_a_home_that_cannot_be_made_is_worth_another_try(tmp_path: Path, rig: Rig) -> None:
    (tmp_path / "taken").touch()
    with pytest.raises(LauncherAway, match="Not a directory"):
        SubprocessLauncher(tmp_path / "taken").start(rig.spec())


def is_taken(pid: int, keeper: int) -> bool:
    """Whether the keeper has dealt with all that was written, and waits for more."""
    left = array("i", [0])
    with open(os.open(f"/proc/{pid}/fd/1", os.O_RDONLY | os.O_NONBLOCK), "rb") as pipe:
        fcntl.ioctl(pipe, termios.FIONREAD, left)
    state = Path(f"/proc/{keeper}/stat").read_text().rpartition(")")[2].split()[0]
    return left[0] == 0 and state == "S"


def test_a_process_lives_when_its_log_cannot_be_written(rig: Rig, directory: Path) -> None:
    spec = rig.spec(
        "seq 1 100000; echo half >&2; touch wrote; while [ ! -e gate ]; do sleep 0.05; done; echo at last",
        directory=directory,
    )
    home = home_of(directory, spec)
    home.path.mkdir(parents=True)
    home.log.symlink_to("/dev/full")
    handle = rig.launcher.start(spec)
    pid = wait_until(lambda: rig.other.look(handle).pid, LONG_S)
    assert pid is not None
    wait_until(lambda: (directory / "wrote").exists() and is_taken(pid, rig.keeper(handle)), LONG_S)
    assert rig.other.wait([handle], 0.0) == []
    home.log.unlink()
    (directory / "gate").touch()
    assert rig.ended(handle).exit_code == 0
    blank, told, last = rig.lines(handle)
    assert (blank, last) == ("", "at last")
    assert "588900" in told


FULL_DISK = """
import os, sys
from pathlib import Path
from towpath.supervision.launchers.process_tree import born
from towpath.supervision.launchers.launcher import LaunchSpec
from towpath.supervision.launchers.subprocess import SubprocessLauncher

home = Path(sys.argv[1])
launcher = SubprocessLauncher(home)
script = "seq 1 200000; echo wrote all; exit 9"
handle = launcher.start(LaunchSpec("orders", 1, "abc", ("sh", "-c", script), {"PATH": os.environ["PATH"]}, Path("/")))
assert launcher.wait([handle], 60) == [handle]
free = os.statvfs(home)
print(free.f_bavail, launcher.look(handle).exit_code, len(list(launcher.logs(handle))) > 1000)
"""


def test_a_process_lives_and_its_end_is_known_when_the_disk_is_full(tmp_path: Path) -> None:
    words = f'mount -t tmpfs -o size=256k tmpfs {tmp_path} && exec "$@"'
    inside = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", words, "sh"]
    if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine lets nobody mount a small disk (unshare --user --mount); /dev/full was tried instead")
    done = subprocess.run(
        [*inside, sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert (done.stdout, done.stderr) == ("0 9 True\n", "")


# Logs


def test_output_and_errors_stand_in_the_order_in_which_they_were_written(rig: Rig) -> None:
    handle = rig.start("echo one; echo two >&2; echo three; printf four >&2")
    rig.ended(handle)
    assert rig.lines(handle) == ["one", "two", "three", "four"]


def test_a_log_is_followed_through_its_files(rig: Rig) -> None:
    """Faster than it is read, as long as what is read is still there."""
    count = 300_000
    handle = rig.start(f"seq 1 {count}", log=LogLimits(file_mb=1, files=20))
    assert list(rig.other.logs(handle, follow=True)) == [str(number) for number in range(1, count + 1)]
    kept = [path.stat().st_size for path in (rig.launcher._directory / handle).glob("log*")]  # type: ignore[attr-defined]
    assert len(kept) == 2


@pytest.mark.part("kills")
def test_the_last_lines_may_stand_in_several_files(rig: Rig) -> None:
    handle = rig.start("seq 1 300000", log=LogLimits(file_mb=1, files=3))
    rig.ended(handle)
    for tail in (1, 1_000, 200_000, 299_999, 300_000, 400_000):
        lines = list(rig.other.logs(handle, tail=tail))
        assert lines == [str(number) for number in range(300_001 - min(tail, 300_000), 300_001)]


# Homes


def test_a_home_is_for_nobody_else_to_read_and_holds_no_secrets(rig: Rig, directory: Path) -> None:
    """Passwords are among the variables of a process."""
    spec = rig.spec("echo $PASSWORD | wc -c; exit 3", environment={**PATHS, "PASSWORD": "geheim"})
    handle = rig.launcher.start(spec)
    rig.ended(handle)
    assert rig.lines(handle) == ["7"]
    home = home_of(directory, spec)
    assert home.path.stat().st_mode & 0o077 == 0
    assert [path.name for path in home.path.iterdir() if path.stat().st_mode & 0o077] == []
    assert not any(b"geheim" in path.read_bytes() for path in home.path.iterdir() if path.is_file())


def test_a_process_whose_home_is_deleted_ends(rig: Rig, directory: Path) -> None:
    """Nobody could find it any more, and another would be started beside it."""
    spec = rig.spec()
    handle = rig.launcher.start(spec)
    shutil.rmtree(home_of(directory, spec).path)
    wait_until(lambda: not rig.kin(spec), LONG_S)
    assert rig.other.look(handle).state is LaunchState.UNKNOWN


@pytest.mark.parametrize("name", ["spec.json", "keeper.json", "ended.json"])
def test_a_file_that_a_power_cut_has_emptied_is_no_obstacle(rig: Rig, directory: Path, name: str) -> None:
    spec = rig.spec("exit 3")
    handle = rig.launcher.start(spec)
    rig.ended(handle)
    (home_of(directory, spec).path / name).write_bytes(b"")
    assert rig.other.look(handle).state is LaunchState.ENDED
    assert rig.other.start(spec) == handle
    rig.other.kill(handle)
    assert rig.other.look(handle).exit_code == (None if name == "ended.json" else 3)
    rig.other.forget(handle)
    assert rig.other.handles() == []


def test_what_is_not_a_home_is_not_taken_for_one(rig: Rig, directory: Path) -> None:
    handle = rig.start("exit 0")
    rig.ended(handle)
    (directory / "orders" / "notes.txt").write_text("mine")
    (directory / "orders" / ".hidden").mkdir()
    (directory / "README").write_text("mine")
    assert rig.other.handles() == [handle]
    rig.other.forget(handle)
    assert rig.other.handles() == []
    assert (directory / "orders" / "notes.txt").read_text() == "mine"


@pytest.mark.part("kills")
def test_waiting_costs_little_for_many(rig: Rig) -> None:
    """Ends are heard, not looked for: a coordinator waits all day."""
    handles = [rig.start("exec sleep 600") for _ in range(20)]
    rig.other.wait(handles, 0.0)
    before = time.thread_time()
    for _ in range(100):
        assert rig.other.wait(handles, 0.0) == []
    assert (time.thread_time() - before) / 100 < 0.01


def test_who_waits_hears_of_one_that_ends_while_another_thread_forgets(rig: Rig) -> None:
    handles = [rig.start("exit 0") for _ in range(6)]
    heard: set[str] = set()

    def listen() -> None:
        while len(heard) < len(handles):
            for handle in rig.other.wait([each for each in handles if each not in heard], 1.0):
                heard.add(handle)

    threads = [threading.Thread(target=listen) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG_S)
    assert heard == set(handles)
