"""Whether a process of this machine is gone."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from towpath.core import os_processes as machine
from towpath.testing.clock import wait_until

HERE = machine.machine()


def test_this_process_is_here() -> None:
    assert HERE
    assert not machine.is_gone(*machine.me())


def test_a_child_that_was_killed_is_gone_before_its_parent_looks() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        born = machine.born(child.pid)
        assert born
        assert not machine.is_gone(HERE, child.pid, born)
        child.kill()
        wait_until(lambda: machine.is_gone(HERE, child.pid, born))
        os.kill(child.pid, 0)  # the kernel keeps its number until the parent looks
        child.wait(10)
        assert machine.is_gone(HERE, child.pid, born)


def test_another_process_of_the_same_number_is_another() -> None:
    on, pid, born = machine.me()
    assert machine.is_gone(on, pid, str(int(born) - 1))


@pytest.mark.parametrize("on", ["", "another/boot/pid:[1]"])
def test_of_another_machine_nothing_is_known(on: str) -> None:
    assert not machine.is_gone(on, 2**22 + 1, "1")


def test_of_who_did_not_say_when_it_began_nothing_is_known() -> None:
    assert not machine.is_gone(HERE, 2**22 + 1, "")


def test_where_the_kernel_cannot_be_asked_nothing_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setattr(machine, "PROC", tmp_path)
    machine.machine.cache_clear()
    try:
        assert machine.me() == ("", os.getpid(), "")
        assert not machine.is_gone("", os.getpid(), "7")
    finally:
        machine.machine.cache_clear()


def test_a_program_with_an_odd_name(tmp_path: object) -> None:
    """What stands in brackets may look like anything."""
    code = "import ctypes; ctypes.CDLL(None).prctl(15, b'a) Z 1 (', 0, 0, 0); print('x', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert machine.born(child.pid).isdigit()
        child.kill()
