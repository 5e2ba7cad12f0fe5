"""Wake-ups on SQLite stand in a directory where every user may write: nobody else's files are trusted or touched."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from towpath.db.sqlite.wakeups import SqliteWakeups


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The system's directory for temporary files, as an attacker finds it before Towpath's first start.

    `tmp_path` is made before it, which would otherwise be made in it.
    """
    with tempfile.TemporaryDirectory() as directory:  # the address of a socket must be short
        monkeypatch.setattr(tempfile, "tempdir", directory)
        yield Path(directory)


def bells_directory(shared: Path, wakeups: SqliteWakeups) -> Path:
    [directory] = (shared / f"towpath-{os.getuid()}").iterdir()
    return directory


def test_a_ring_deletes_no_file(shared: Path, tmp_path: Path) -> None:
    listener, sender = SqliteWakeups(tmp_path / "q.db"), SqliteWakeups(tmp_path / "q.db")
    listener.hang("work")
    kept = bells_directory(shared, listener) / "letter.bell"
    kept.write_text("mine")
    sender.ring(["work"])
    listener.close()
    sender.close()
    assert kept.read_text() == "mine"


def test_a_directory_that_is_a_link_is_left_alone(
    shared: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "precious.bell").write_text("mine")
    probe = SqliteWakeups(tmp_path / "q.db")
    probe.hang("work")
    real = bells_directory(shared, probe)
    probe.close()
    real.rmdir()
    real.symlink_to(victim)
    wakeups = SqliteWakeups(tmp_path / "q.db")
    wakeups.hang("work")
    wakeups.ring(["work"])
    wakeups.close()
    assert caplog.records
    assert [file.read_text() for file in victim.iterdir()] == ["mine"]


def test_the_bell_of_a_dead_process_is_removed(shared: Path, tmp_path: Path) -> None:
    import socket

    sender = SqliteWakeups(tmp_path / "q.db")
    sender.hang("work")
    left = bells_directory(shared, sender) / "dead.bell"
    gone = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    gone.bind(str(left))
    gone.close()
    sender.ring(["work"])
    sender.close()
    assert not left.exists()


def test_a_process_that_ends_while_others_are_looked_for_silences_nobody(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener, ending, sender = (SqliteWakeups(tmp_path / "q.db") for _ in range(3))
    wakeup = listener.hang("work")
    ending.hang("work")
    scandir = os.scandir

    @contextmanager
    def one_ends_meanwhile(directory: Path) -> Iterator[list[os.DirEntry[str]]]:
        with scandir(directory) as entries:
            found = list(entries)
        ending.close()
        yield found

    monkeypatch.setattr(os, "scandir", one_ends_meanwhile)
    sender.ring(["work"])
    assert wakeup.wait(5)
    listener.close()
    sender.close()


def test_without_a_place_for_sockets_it_still_rings_within_the_process(shared: Path, tmp_path: Path) -> None:
    (shared / f"towpath-{os.getuid()}").write_text("in the way")
    wakeups = SqliteWakeups(tmp_path / "q.db")
    wakeup = wakeups.hang("work")
    wakeups.ring(["work"])
    assert wakeup.wait(0)
    wakeups.close()
