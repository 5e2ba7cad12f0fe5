"""What the chaos run tells of its victims, and that a run that hit nobody at work does not count."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from soak.delivery import tree
from soak.delivery.blow import Blow, idle, victims
from soak.delivery.books import Open
from soak.delivery.plan import Target

from towpath.flow.worker.breadcrumb import own_trail, trail_of

AT_WORK = Blow(Target.WORKER, (Open("parsed", 3, "decided", 1),), ("/flows/chaos/segment0-1-77.at",), 5)
IDLE = Blow(Target.KAFKA, (), (), 5)
RECOVERING = Blow(Target.DRIVER, (Open("source", 1, "snapshot", 2), Open("parsed", 3, "snapshot", 1)), (), 5)
MISSED = Blow(Target.DRIVER, (Open("source", 1, "snapshot", 1),), (), None)


def test_a_row_for_each_kind_that_was_hit() -> None:
    assert victims([RECOVERING, AT_WORK, MISSED, AT_WORK]) == [
        ("worker", "2", "2", "parsed 2", "decided 2", "2: segment0 2", "0"),
        ("driver", "2", "2", "parsed 1, source 2", "snapshot 3", "0: none", "2"),
    ]


def test_strikes_that_find_nobody_at_work_prove_nothing() -> None:
    assert idle([AT_WORK, AT_WORK, RECOVERING, IDLE]) == []
    assert len(idle([AT_WORK, IDLE, IDLE])) == 1
    assert len(idle([RECOVERING, MISSED])) == 1


def test_a_worker_has_a_task_as_long_as_its_file_is_mapped(tmp_path: Path) -> None:
    """As `Breadcrumb` does it."""
    me = tree.find(os.getpid())
    assert me is not None
    assert tree.task_of(me) is None
    path = tmp_path / "segment 0-1-77.at"
    path.write_bytes(bytes(512))
    with path.open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 512)
    assert tree.task_of(me) == str(path)
    mapped.close()
    assert tree.task_of(me) is None


def test_what_a_worker_keeps_between_its_tasks_is_none(tmp_path: Path) -> None:
    me = tree.find(os.getpid())
    assert me is not None
    trail = own_trail(str(trail_of(tmp_path)))
    assert tree.task_of(me) is None
    trail.close()
