"""What every launcher has to do, as a subprocess and as a container alike."""

from __future__ import annotations

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.support.launchers import LONG_S, PATHS, SLEEP, Rig

from towpath.core.os_processes import is_standing_still
from towpath.errors import BadName, BadValue, CannotLaunch, StillRunning, UnknownLaunch
from towpath.supervision.launchers.keeper_home import LONGEST_LINE
from towpath.supervision.launchers.launcher import (
    LAUNCH_VARIABLE,
    LaunchSpec,
    LaunchState,
    LaunchStatus,
    LogLimits,
    ProcessLimits,
)
from towpath.testing.clock import wait_until

IGNORES_TERM = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
# A child and a grandchild, of which the last is in the background of the background.
FAMILY = "sh -c 'sleep 600 & sleep 600' & sleep 600 & echo ready; while :; do sleep 0.05; done"
MB = 1 << 20


# Starting


@pytest.fixture
def rig(launching: Rig) -> Rig:
    return launching


@pytest.mark.parametrize("code", [0, 1, 3, 126, 127])
def test_the_exit_code_is_known_to_one_who_did_not_start_it(rig: Rig, code: int) -> None:
    handle = rig.start(f"exit {code}")
    assert rig.ended(handle) == LaunchStatus(LaunchState.ENDED, exit_code=code)


def test_runs_with_a_number_until_it_ends(rig: Rig) -> None:
    handle = rig.start("read line < /dev/null; " + SLEEP)
    looked = rig.other.look(handle)
    assert looked.state is LaunchState.RUNNING
    assert looked.pid is not None
    assert Path(f"/proc/{looked.pid}").exists()
    assert looked.how == "runs"


def test_gets_the_environment_that_it_is_told_and_its_sign(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOT_FOR_CHILDREN", "secret")
    spec = rig.spec("env; echo done", environment={**PATHS, "COLOUR": "blue sky", "EMPTY": "", "LINES_": "a\nb"})
    handle = rig.launcher.start(spec)
    rig.ended(handle)
    lines = rig.lines(handle)
    assert {"COLOUR=blue sky", "EMPTY=", f"{LAUNCH_VARIABLE}={spec.sign}"} <= set(lines)
    assert lines[lines.index("LINES_=a") + 1] == "b"
    assert "secret" not in "".join(lines)


def test_works_in_its_directory(rig: Rig) -> None:
    handle = rig.start("pwd", directory=Path("/usr"))
    rig.ended(handle)
    assert rig.lines(handle) == ["/usr"]


def test_arguments_are_not_read_by_any_shell(rig: Rig) -> None:
    handle = rig.start(command=("printf", "%s|", "a b", "$HOME", "*", "", "ü"))
    rig.ended(handle)
    assert rig.lines(handle) == ["a b|$HOME|*||ü|"]


def test_has_no_input(rig: Rig) -> None:
    handle = rig.start("cat; echo read all of nothing")
    assert rig.ended(handle).exit_code == 0
    assert rig.lines(handle) == ["read all of nothing"]


def test_a_second_start_of_a_launch_starts_nothing(rig: Rig) -> None:
    spec = rig.spec(f"echo once; {SLEEP}")
    handle = rig.launcher.start(spec)
    assert rig.launcher.start(spec) == handle
    assert rig.other.start(spec) == handle
    rig.says(handle, "once")
    assert rig.lines(handle) == ["once"]
    assert rig.launcher.handles() == [handle]


def test_a_launch_that_has_ended_is_not_started_again(rig: Rig) -> None:
    spec = rig.spec("echo once")
    handle = rig.launcher.start(spec)
    rig.ended(handle)
    assert rig.other.start(spec) == handle
    assert rig.other.look(handle) == LaunchStatus(LaunchState.ENDED, exit_code=0)
    assert rig.lines(handle) == ["once"]


def test_many_who_start_the_same_launch_at_once_start_one(rig: Rig) -> None:
    spec = rig.spec("echo once; sleep 0.5")
    with ThreadPoolExecutor(8) as pool:
        handles = list(pool.map(lambda _: rig.make().start(spec), range(8)))
    assert set(handles) == {handles[0]}
    rig.ended(handles[0])
    assert rig.lines(handles[0]) == ["once"]


def test_launches_of_one_duty_run_side_by_side(rig: Rig) -> None:
    """The one that is replaced may take its time to end."""
    first, second = rig.start(), rig.start()
    assert first != second
    rig.launcher.kill(first)
    assert rig.launcher.look(second).is_running


@pytest.mark.parametrize(
    ("program", "says"),
    [("no-such-program", "no-such-program"), ("/no/such/program", "/no/such"), ("/etc/passwd", "passwd")],
)
def test_what_cannot_be_run_is_told_and_has_ended(rig: Rig, program: str, says: str) -> None:
    spec = rig.spec(command=(program,))
    for _ in range(2):
        with pytest.raises(CannotLaunch, match=says):
            rig.launcher.start(spec)
    handle = rig.other.find(spec.launch_id)
    assert handle is not None
    looked = rig.other.look(handle)
    assert looked.state is LaunchState.ENDED
    assert says in (looked.reason or "")
    assert says in looked.how
    assert rig.lines(handle) == []


def test_what_is_limited_is_limited(rig: Rig) -> None:
    handle = rig.start("ulimit -n", limits=ProcessLimits(open_files=64))
    rig.ended(handle)
    assert rig.lines(handle) == ["64"]


def test_a_limit_of_memory_ends_who_wants_more(rig: Rig) -> None:
    takes = "x = bytearray(200 << 20); print('has it')"
    handle = rig.start(f'python3 -c "{takes}" || echo refused', limits=ProcessLimits(memory_mb=100))
    rig.ended(handle)
    assert "refused" in rig.lines(handle)
    assert "has it" not in rig.lines(handle)


def test_a_limit_of_computing_ends_who_takes_more(rig: Rig) -> None:
    assert rig.ended(rig.start("while :; do :; done", limits=ProcessLimits(cpu_s=1))).signal == signal.SIGXCPU


# Finding


def test_is_found_by_its_launch_id(rig: Rig) -> None:
    spec = rig.spec()
    handle = rig.launcher.start(spec)
    rig.start()
    assert rig.other.find(spec.launch_id) == handle
    assert rig.other.find("0" * 32) is None
    rig.launcher.kill(handle)
    assert rig.other.find(spec.launch_id) == handle


def test_what_nobody_started_is_unknown_and_may_be_ended(rig: Rig) -> None:
    spec = rig.spec()
    handle = rig.launcher.start(spec)
    rig.launcher.kill(handle)
    rig.launcher.forget(handle)
    assert rig.other.look(handle) == LaunchStatus(LaunchState.UNKNOWN)
    assert rig.other.wait([handle], LONG_S) == [handle]
    rig.other.stop(handle, 1.0)
    rig.other.kill(handle)
    rig.other.forget(handle)
    assert rig.other.find(spec.launch_id) is None
    assert rig.other.handles() == []
    with pytest.raises(UnknownLaunch):
        list(rig.other.logs(handle))


# Waiting


def test_an_end_is_heard_at_once_also_by_who_did_not_start_it(rig: Rig, tmp_path: Path) -> None:
    others = [rig.start() for _ in range(3)]
    handle = rig.start(f"{SLEEP} & wait")
    assert rig.other.wait([*others, handle], 0.0) == []
    with ThreadPoolExecutor(1) as pool:
        heard = pool.submit(rig.other.wait, [*others, handle], 3600.0)
        rig.launcher.stop(handle, 0.0)
        assert heard.result(LONG_S) == [handle]  # long before who waits would have given up
    assert rig.other.wait(others, 0.05) == []


def test_all_that_have_ended_are_told_together(rig: Rig) -> None:
    ended, running = [rig.start("exit 0") for _ in range(3)], rig.start()
    for handle in ended:
        rig.ended(handle)
    assert sorted(rig.other.wait([*ended, running], LONG_S)) == sorted(ended)
    assert rig.other.wait([], 0.01) == []


# Ending


def test_who_is_asked_to_end_may_say_how(rig: Rig) -> None:
    handle = rig.start("trap 'echo cleaned up; exit 5' TERM; echo ready; while :; do sleep 0.05; done")
    rig.says(handle, "ready")
    rig.launcher.stop(handle, LONG_S)
    assert rig.ended(handle) == LaunchStatus(LaunchState.ENDED, exit_code=5)
    assert rig.lines(handle) == ["ready", "cleaned up"]


@pytest.mark.realtime
def test_who_does_not_end_in_time_is_killed(rig: Rig) -> None:
    handle = rig.start(IGNORES_TERM)
    rig.says(handle, "ready")
    begun = time.monotonic()
    rig.other.stop(handle, 0.5)
    assert rig.ended(handle).signal == signal.SIGKILL
    assert time.monotonic() - begun >= 0.5


@pytest.mark.realtime
def test_asked_again_with_less_time_it_has_less(rig: Rig) -> None:
    handle = rig.start(IGNORES_TERM)
    rig.says(handle, "ready")
    rig.launcher.stop(handle, 10 * LONG_S)
    rig.other.stop(handle, 0.1)
    assert rig.ended(handle).signal == signal.SIGKILL


@pytest.mark.parametrize("way", ["kill", "stop", "exit"])
def test_nothing_of_it_is_left(rig: Rig, way: str) -> None:
    script = FAMILY if way != "exit" else FAMILY.replace(SLEEP, "exit 0")
    spec = rig.spec(script)
    handle = rig.launcher.start(spec)
    rig.says(handle, "ready")
    if way == "kill":
        rig.launcher.kill(handle)
    elif way == "stop":
        rig.launcher.stop(handle, 0.2)
    rig.ended(handle)
    assert rig.kin(spec) == []


def test_killed_it_has_ended_when_the_call_returns(rig: Rig) -> None:
    handle = rig.start(IGNORES_TERM)
    rig.launcher.kill(handle)
    assert rig.other.look(handle).state is LaunchState.ENDED
    assert rig.other.look(handle).signal == signal.SIGKILL
    rig.launcher.kill(handle)
    rig.launcher.stop(handle, 1.0)
    assert rig.other.look(handle).signal == signal.SIGKILL


@pytest.mark.realtime
def test_a_frozen_process_can_be_ended(rig: Rig) -> None:
    handle = rig.start("kill -STOP $$; " + SLEEP)
    wait_until(lambda: is_standing_still(rig.other.look(handle).pid or 0), what="it has stopped itself")
    rig.launcher.stop(handle, 0.2)
    assert rig.ended(handle).signal == signal.SIGKILL


# Logs


def test_output_and_errors_are_one_log(rig: Rig) -> None:
    handle = rig.start("echo one; echo two >&2; printf three")
    rig.ended(handle)
    assert sorted(rig.lines(handle)) == ["one", "three", "two"]  # an engine keeps no order between the two


@pytest.mark.parametrize(("tail", "shown"), [(0, 0), (1, 1), (7, 7), (500, 500), (501, 500), (None, 500)])
def test_the_last_lines(rig: Rig, tail: int | None, shown: int) -> None:
    handle = rig.start("i=0; while [ $i -lt 500 ]; do echo line $i; i=$((i+1)); done")
    rig.ended(handle)
    assert list(rig.other.logs(handle, tail=tail)) == [f"line {number}" for number in range(500 - shown, 500)]


def test_a_log_is_followed_to_the_end_of_its_process(rig: Rig) -> None:
    handle = rig.start("echo one; while [ ! -e /tmp/never ]; do echo tick; sleep 0.05; done")
    following = rig.other.logs(handle, follow=True)
    assert next(following) == "one"
    assert next(following) == "tick"
    rig.launcher.stop(handle, 0.0)
    assert set(following) <= {"tick"}


def test_a_log_that_nobody_reads_on_is_let_go(rig: Rig) -> None:
    handle = rig.start("echo one; " + SLEEP)
    following = rig.other.logs(handle, follow=True)
    assert next(following) == "one"
    following.close()  # type: ignore[attr-defined]


def test_bytes_that_are_no_text_are_replaced(rig: Rig) -> None:
    handle = rig.start(r"printf 'a\377b\000c\n\303\274\n\303'")
    rig.ended(handle)
    assert rig.lines(handle) == ["a\N{REPLACEMENT CHARACTER}b\0c", "ü", "\N{REPLACEMENT CHARACTER}"]


def test_megabytes_without_an_end_of_line_come_in_pieces(rig: Rig) -> None:
    handle = rig.start("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo done")
    rig.ended(handle)
    *pieces, done = rig.lines(handle)
    assert done == "done"
    assert "".join(pieces) == "x" * 3_000_000
    assert max(map(len, pieces)) <= 1 << 20


@pytest.mark.part("kills")
def test_a_log_that_grows_keeps_its_end(rig: Rig) -> None:
    count = 400_000
    handle = rig.start(f"seq 1 {count}", log=LogLimits(file_mb=1, files=2))
    rig.ended(handle)
    lines = rig.lines(handle)
    assert lines == [str(number) for number in range(count - len(lines) + 1, count + 1)]
    assert MB / 2 < sum(len(line) + 1 for line in lines) <= 2 * MB + 2 * LONGEST_LINE


# Forgetting


def test_what_runs_is_not_forgotten(rig: Rig) -> None:
    handle = rig.start()
    with pytest.raises(StillRunning):
        rig.launcher.forget(handle)
    assert rig.launcher.look(handle).is_running
    rig.launcher.kill(handle)
    rig.launcher.forget(handle)
    assert rig.other.look(handle).state is LaunchState.UNKNOWN


def test_handles_are_of_all_that_are_kept(rig: Rig) -> None:
    started = [rig.start("exit 0", duty="one"), rig.start(duty="two"), rig.start("exit 1", duty="two")]
    assert sorted(rig.other.handles()) == sorted(started)
    rig.ended(started[0])
    rig.other.forget(started[0])
    assert sorted(rig.other.handles()) == sorted(started[1:])


# Bad input


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "-a", "a b", "ü", "x" * 101])
def test_names_that_no_file_and_no_container_can_have_are_refused(name: str) -> None:
    with pytest.raises(BadName):
        LaunchSpec(duty=name, launch=1, launch_id="a", command=("true",))
    with pytest.raises(BadName):
        LaunchSpec(duty="a", launch=1, launch_id=name, command=("true",))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"command": ()}, "program"),
        ({"command": ("",)}, "program"),
        ({"command": ("a\0b",)}, "NUL"),
        ({"environment": {"A": "\0"}}, "NUL"),
        ({"environment": {"A=B": "c"}}, "variable"),
        ({"launch": 0}, "from 1"),
    ],
)
def test_what_cannot_be_started_is_refused_before(given: dict[str, object], says: str) -> None:
    told = {"duty": "a", "launch": 1, "launch_id": "b", "command": ("true",)}
    with pytest.raises(BadValue, match=says):
        LaunchSpec(**{**told, **given})  # type: ignore[arg-type]


def test_limits_are_1_or_more() -> None:
    with pytest.raises(BadValue, match="memory_mb"):
        ProcessLimits(memory_mb=0)
    with pytest.raises(BadValue, match="files"):
        LogLimits(files=0)


def test_a_handle_of_another_place_is_refused(rig: Rig) -> None:
    with pytest.raises(BadName):
        rig.launcher.find("../../etc")
    wait_until(lambda: rig.launcher.handles() == [])
