"""Data sets on both databases: the row is true at every moment, also after a crash."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.support.sweep import sweep
from tests.support.tables import by_hand, rows

from towpath.catalog import DataSet, DataSetState
from towpath.catalog.data_sets.directory import MARKER, make_directory, place_of
from towpath.catalog.data_sets.store import DataSetMove
from towpath.core.crash import CrashPoint
from towpath.errors import BadValue, DatabaseError, DataSetInUse, IllegalDataSetMove, Refused, UnknownDataSet
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until

Make = Callable[..., Runtime]


def new_id() -> str:
    return str(uuid4())


def begin(runtime: Runtime, tmp_path: Path, *parents: DataSet, kind: str = "crawl", subject: str = "a") -> DataSet:
    """One that is being made, with something in it."""
    id = new_id()
    place = place_of(tmp_path / "sets" / id)
    made = runtime.data_sets.begin(
        id, kind=kind, subject=subject, origin="run 1", place=place, parents=[each.id for each in parents]
    )
    (make_directory(place, id) / "part").write_bytes(b"12345")
    return made


def ready(runtime: Runtime, tmp_path: Path, *parents: DataSet, **about: str) -> DataSet:
    id = begin(runtime, tmp_path, *parents, **about).id
    return runtime.data_sets.finish(id, records=1, bytes=5, facts={"not_modified": 1})


def directory(found: DataSet) -> Path:
    return Path(found.place.removeprefix("file:"))


def kinds(runtime: Runtime, id: str) -> list[str]:
    with runtime.database.read() as tx:
        return [each.kind for each in runtime.event_log.page(tx, limit=100, subject=id)][::-1]


def test_from_the_first_byte_to_the_last(runtime: Runtime, tmp_path: Path) -> None:
    making = begin(runtime, tmp_path)
    assert (making.state, making.records, making.bytes, making.ready_at) == ("making", None, None, None)
    made = runtime.data_sets.finish(making.id, records=7, bytes=99, facts={"gone": 2})
    assert (made.state, made.records, made.bytes, made.facts) == ("ready", 7, 99, {"gone": 2})
    assert made.ready_at is not None
    assert made.ready_at >= made.begun_at
    assert runtime.data_sets.show(made.id).data_set == made
    deleted = runtime.data_sets.delete(made.id, who="ann", why="too old")
    assert deleted.state == "deleted"
    assert (deleted.reason or "").endswith("ann: too old")
    assert not directory(made).exists()
    assert list((tmp_path / "sets").iterdir()) == []
    assert kinds(runtime, made.id) == ["data_set_begun", "data_set_made", "data_set_deleted_by_hand"]


def test_begun_again_it_is_the_same(runtime: Runtime, tmp_path: Path) -> None:
    making = begin(runtime, tmp_path)
    about: dict[str, Any] = {"kind": "crawl", "subject": "a", "origin": "run 1", "place": making.place}
    assert runtime.data_sets.begin(making.id, **about) == making
    done = runtime.data_sets.finish(making.id, records=1, bytes=5)
    assert runtime.data_sets.begin(making.id, **about) == done
    with pytest.raises(BadValue, match="already"):
        runtime.data_sets.begin(making.id, **{**about, "kind": "index"})
    assert kinds(runtime, making.id) == ["data_set_begun", "data_set_made"]


def test_where_it_comes_from_and_what_came_of_it(runtime: Runtime, tmp_path: Path) -> None:
    first, second = ready(runtime, tmp_path), ready(runtime, tmp_path, subject="b")
    documents = ready(runtime, tmp_path, first, second, kind="documents")
    index = begin(runtime, tmp_path, documents, kind="index")
    lineage = runtime.data_sets.show(documents.id)
    assert [each.id for each in lineage.parents] == [first.id, second.id]
    assert [each.id for each in lineage.children] == [index.id]


def test_lists(runtime: Runtime, tmp_path: Path) -> None:
    data_sets = runtime.data_sets
    made = [ready(runtime, tmp_path, subject=subject) for subject in ("a", "b", "a")]
    making = begin(runtime, tmp_path, subject="a")
    assert [each.id for each in data_sets.list(kind="crawl", subject="a")] == [making.id, made[2].id, made[0].id]
    assert [each.id for each in data_sets.list(state=DataSetState.READY)] == [each.id for each in made[::-1]]
    page = data_sets.list(limit=2)
    assert [each.id for each in data_sets.list(before=page[-1].seq)] == [made[1].id, made[0].id]
    assert data_sets.latest("crawl", "a") == made[2]
    assert data_sets.latest("crawl", "c") is None
    with pytest.raises(BadValue):
        data_sets.list(subject="a")


# Where each move leads from which state; from every other one it is refused.
WHERE_TO: dict[DataSetMove, dict[DataSetState, DataSetState]] = {
    DataSetMove.FINISH: {DataSetState.MAKING: DataSetState.READY},
    DataSetMove.DELETE: {DataSetState.MAKING: DataSetState.DELETING, DataSetState.READY: DataSetState.DELETING},
    DataSetMove.REMOVE: {DataSetState.DELETING: DataSetState.DELETED},
    DataSetMove.REPLACE: {DataSetState.READY: DataSetState.DELETED},
}


@sweep("state", DataSetState)
@sweep("move", DataSetMove)
def test_every_state_and_move(runtime: Runtime, tmp_path: Path, state: DataSetState, move: DataSetMove) -> None:
    """What is refused changes nothing."""
    store, id = runtime.data_sets._store, begin(runtime, tmp_path).id
    with runtime.database.transaction() as tx:
        if state is not DataSetState.MAKING:
            store.finish(tx, id, 1, 1, {})
        if state in (DataSetState.DELETING, DataSetState.DELETED):
            store.begin_deletion(tx, id, "because")
        if state is DataSetState.DELETED:
            store.end_deletion(tx, id)

    def act() -> None:
        with runtime.database.transaction() as tx:
            match move:
                case DataSetMove.FINISH:
                    store.finish(tx, id, 2, 2, {})
                case DataSetMove.DELETE:
                    store.begin_deletion(tx, id, "again")
                case DataSetMove.REMOVE:
                    store.end_deletion(tx, id)
                case DataSetMove.REPLACE:
                    store._move(tx, move, "replace_data_set", id, reason="another")

    before = runtime.data_sets.show(id)
    wanted = WHERE_TO[move].get(state)
    if wanted is not None:
        act()
        assert runtime.data_sets.show(id).data_set.state is wanted
    else:
        with pytest.raises(IllegalDataSetMove) as caught:
            act()
        assert (caught.value.state, set(caught.value.allowed)) == (state, set(WHERE_TO[move]))
        assert runtime.data_sets.show(id) == before


def test_what_is_in_use_is_not_deleted(runtime: Runtime, tmp_path: Path) -> None:
    parent = ready(runtime, tmp_path)
    child = begin(runtime, tmp_path, parent)
    with pytest.raises(DataSetInUse, match=child.id):
        runtime.data_sets.delete(parent.id, who="ann", why="room")
    assert (directory(parent) / "part").exists()
    runtime.data_sets.finish(child.id, records=0, bytes=0)
    runtime.data_sets.delete(parent.id, who="ann", why="room")
    assert [each.state for each in runtime.data_sets.show(child.id).parents] == ["deleted"]


def test_nothing_is_made_of_what_is_not_ready(runtime: Runtime, tmp_path: Path) -> None:
    making = begin(runtime, tmp_path)
    gone = ready(runtime, tmp_path)
    runtime.data_sets.delete(gone.id, who="ann", why="room")
    for parent in (making, gone):
        before = runtime.data_sets.list()
        with pytest.raises(IllegalDataSetMove):
            begin(runtime, tmp_path, parent)
        assert runtime.data_sets.list() == before
    with pytest.raises(UnknownDataSet):
        runtime.data_sets.begin(new_id(), kind="crawl", place="file:/x", parents=[new_id()])


def test_deletion_and_use_at_the_same_time(runtime: Runtime, make_runtime: Make, tmp_path: Path) -> None:
    """Whoever comes second finds out: nothing is ever made of what is being deleted."""
    other = make_runtime()
    for _ in range(10):
        parent = ready(runtime, tmp_path)
        refused: list[str] = []
        barrier = threading.Barrier(2)

        def use(parent: DataSet = parent, barrier: threading.Barrier = barrier, out: list[str] = refused) -> None:
            barrier.wait()
            try:
                begin(other, tmp_path, parent)
            except IllegalDataSetMove:
                out.append("use")

        user = threading.Thread(target=use)
        user.start()
        barrier.wait()
        try:
            runtime.data_sets.delete(parent.id, who="ann", why="room")
        except DataSetInUse:
            refused.append("delete")
        user.join()
        assert len(refused) == 1


def test_one_that_takes_the_place_of_another(runtime: Runtime) -> None:
    place = "table:documents"
    first = runtime.data_sets.begin(new_id(), kind="index", place=place)
    first = runtime.data_sets.finish(first.id, records=1, bytes=1)
    second = runtime.data_sets.begin(new_id(), kind="index", place=place, parents=[first.id])
    assert runtime.data_sets.latest("index", "") == first, "until the new one is ready"
    second = runtime.data_sets.finish(second.id, records=2, bytes=2)
    assert runtime.data_sets.latest("index", "") == second
    before = runtime.data_sets.show(first.id).data_set
    assert (before.state, before.reason) == ("deleted", f"replaced by {second.id}")
    assert kinds(runtime, first.id)[-1] == "data_set_replaced"


def test_a_place_that_nobody_can_remove(runtime: Runtime) -> None:
    made = runtime.data_sets.begin(new_id(), kind="index", place="table:documents")
    with pytest.raises(BadValue, match="remove"):
        runtime.data_sets.delete(made.id, who="ann", why="room")
    assert runtime.data_sets.show(made.id).data_set.state is DataSetState.MAKING
    removed: list[str] = []
    runtime.data_sets.removes("table", lambda place, id: removed.append(place))
    assert runtime.data_sets.delete(made.id, who="ann", why="room").state is DataSetState.DELETED
    assert removed == ["table:documents"]


def test_a_directory_that_is_another_s_is_not_removed(runtime: Runtime, tmp_path: Path) -> None:
    made = ready(runtime, tmp_path)
    (directory(made) / MARKER).write_text(new_id())
    with pytest.raises(BadValue, match="remove"):
        runtime.data_sets.delete(made.id, who="ann", why="room")
    assert (directory(made) / "part").read_bytes() == b"12345"
    assert runtime.data_sets.show(made.id).data_set.state is DataSetState.DELETING, "and says so"
    (directory(made) / MARKER).write_text(made.id)
    assert runtime.data_sets.sweep() == 1
    assert not directory(made).exists()


def test_a_directory_with_something_else_in_it(tmp_path: Path) -> None:
    (tmp_path / "letters").write_text("dear")
    with pytest.raises(BadValue, match="something else"):
        make_directory(place_of(tmp_path), new_id())
    with pytest.raises(BadValue, match="directory"):
        make_directory("file:relative", new_id())


def test_a_change_by_hand_has_a_name_and_a_reason(runtime: Runtime, tmp_path: Path) -> None:
    made = ready(runtime, tmp_path)
    for who, why in (("", "room"), ("ann", " ")):
        with pytest.raises(Refused):
            runtime.data_sets.delete(made.id, who=who, why=why)
    assert runtime.data_sets.show(made.id).data_set == made


REFUSED = [
    "update data_set set state = 'gone'",
    "update data_set set records = null",
    "update data_set set bytes = -1",
    "update data_set set ready_at = null",
    "update data_set set state = 'making'",
    "update data_set set state = 'deleting'",
    "update data_set set state = 'deleted', reason = 'x'",
    "update data_set set reason = 'x'",
    "update data_set set kind = ''",
    "update data_set set place = 'nowhere'",
    "update data_set set facts = '{'",
    "insert into data_set_parent (child_id, parent_id) select id, id from data_set",
    "insert into data_set (id, kind, subject, origin, place, state, records, bytes, begun_at, ready_at)"
    " select '01900000-0000-7000-8000-000000000001', kind, subject, origin, place, state, 1, 1, 1, 1 from data_set",
]


@sweep("statement", REFUSED)
def test_the_database_refuses(runtime: Runtime, tmp_path: Path, statement: str) -> None:
    ready(runtime, tmp_path, ready(runtime, tmp_path))
    before = rows(runtime.database, "data_set")
    with pytest.raises(DatabaseError):
        by_hand(runtime.database, statement)
    assert rows(runtime.database, "data_set") == before


# Killed in a deletion


PROGRAM = """
import json, sys, towpath
order = json.loads(sys.argv[1])
with towpath.connect(database=order["database"]) as runtime:
    runtime.data_sets.delete(order["id"], who="ann", why="room")
"""


@pytest.mark.parametrize(
    ("point", "left"),
    [
        (CrashPoint.DATA_SET_DELETE_BEFORE_COMMIT, "ready"),
        (CrashPoint.DATA_SET_DELETE_AFTER_COMMIT, "deleting"),
        (CrashPoint.DATA_SET_REMOVED, "deleting"),
    ],
)
def test_killed_in_a_deletion(
    runtime: Runtime, database_settings: dict[str, Any], tmp_path: Path, point: CrashPoint, left: str
) -> None:
    made = ready(runtime, tmp_path)
    order = json.dumps({"database": database_settings, "id": made.id})
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, order], env={"TOWPATH_CRASH": point}, check=False, timeout=60, cwd=tmp_path
    )
    assert done.returncode == -signal.SIGKILL
    found = runtime.data_sets.show(made.id).data_set
    assert found.state == left
    assert directory(made).exists() == (point is not CrashPoint.DATA_SET_REMOVED)
    if left == "ready":
        assert runtime.data_sets.sweep() == 0
        runtime.data_sets.delete(made.id, who="ann", why="room")
    else:
        assert runtime.data_sets.sweep() == 1
    wait_until(lambda: runtime.data_sets.show(made.id).data_set.state is DataSetState.DELETED)
    assert list((tmp_path / "sets").iterdir()) == []
    assert kinds(runtime, made.id).count("data_set_deleted_by_hand") == 1
