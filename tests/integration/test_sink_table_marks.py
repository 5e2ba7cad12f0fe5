"""Exactly once into tables of both databases: marks, what a repeat finds, and writers that come too late."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.support.table_home import Home, home_of
from tests.support.units import WAIT_S, at_once, attempt, delivery_ids, place, refused_offsets, unit

from towpath.errors import SinkError
from towpath.flow.delivery.ids import Digest, Strategy
from towpath.flow.failures import ErrorCode
from towpath.flow.sinks.sink import Deliveries
from towpath.flow.sinks.table import writer as table_writer
from towpath.flow.sinks.table.sink import TableSink, table

DOCS = Path(__file__).parents[2] / "docs"
SINK_ROWS = 4  # in a part, for these tests
EVERYTHING = range(10)
BAD = {3, 4, 9}


@pytest.fixture(params=["sqlite", "postgres"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    return home_of(request.param, request, tmp_path)


@pytest.fixture
def make(home: Home, monkeypatch: pytest.MonkeyPatch) -> Callable[..., TableSink]:
    monkeypatch.setattr(table_writer, "PART_ROWS", SINK_ROWS)
    return lambda target="orders", **options: table(target, **home.options, **options)


def numbered(numbers: range | list[int]) -> Deliveries:
    """Some of them cannot be rows of a table whose column `n` is a number."""
    return unit(list(numbers), [{"n": "no number" if number in BAD else number} for number in numbers])


def digest(numbers: list[int]) -> str:
    found = Digest()
    found.add_many(delivery_ids(numbers))
    return found.hex


def marks(home: Home, what: str = "part, rows") -> list[tuple[object, ...]]:
    return [tuple(row) for row in home.sql(f"select {what} from towpath_mark order by batch_id, unit, part")]


def test_a_mark_says_what_is_in_and_what_was_refused(home, make):
    sink = make(columns={"n": "bigint not null"})
    assert refused_offsets(attempt(sink, place(7, launch=5), numbered(EVERYTHING))) == sorted(BAD)
    parts = [[0, 1, 2], [5, 6, 7], [8]] if home.is_sqlite else [[0, 1, 2, 5, 6, 7, 8]]
    expected = [(number, len(rows), digest(rows)) for number, rows in enumerate(parts)]
    assert marks(home, "part, rows, digest") == expected
    names = "flow, stage, output, generation, batch_id, unit, launch"
    assert set(marks(home, names)) == {("flow", "stage", "output", 1, 7, "orders/0", 5)}
    kept = [each for (text,) in home.sql("select refused from towpath_mark order by part") for each in json.loads(text)]
    assert [id for id, _, _ in kept] == [each.hex() for each in delivery_ids(sorted(BAD))]
    assert all(kind and text for _, kind, text in kept)
    assert home.sql("select count(*) from towpath_mark where written_at is not null") == [(len(parts),)]


def test_the_how_to_names_every_column_of_ours(home, make):
    attempt(make(), place(), unit([1]))
    page = (DOCS / "how-to" / "write-to-tables.md").read_text(encoding="utf-8")
    for name in ("towpath_mark", "towpath_launch"):
        _, _, told = page.partition(f"`{name}` has a row")
        rows = re.findall(r"^\| (`.*?) \|", told.partition("\n\n`")[0], re.MULTILINE)
        with home.open() as connection:
            columns = [column[0] for column in connection.execute(f"select * from {name}").description]
        assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(columns)


def test_a_unit_without_rows_has_a_mark(home, make):
    assert attempt(make(), place()) == []
    assert marks(home, "part, rows, digest, refused") == [(0, 0, "0" * 64, "[]")]


def came_back(home: Home, sink: TableSink, strategy: Strategy) -> list[bytes]:
    """What a consumer that takes rows away sees a second time, when the unit is tried again after it was done."""
    at = place(strategy=strategy)
    first = attempt(sink, at, numbered(EVERYTHING))
    assert home.consume() == sorted(delivery_ids([n for n in EVERYTHING if n not in BAD]))
    second = attempt(sink, at, numbered(EVERYTHING))
    assert [each[1:] for each in second] == [each[1:] for each in first], "a repeat tells the same refusals"
    return home.consume()


def test_a_repeat_brings_nothing_back_that_a_consumer_has_taken(home, make):
    assert came_back(home, make(columns={"n": "bigint not null"}), Strategy.EXACTLY_ONCE) == []


def test_without_marks_it_comes_back(home, make):
    """The broken twin: delivery ids alone know a row again only while it is there."""
    assert came_back(home, make(columns={"n": "bigint not null"}), Strategy.AT_LEAST_ONCE) != []
    assert not home.has("towpath_mark")
    assert not home.has("towpath_launch")


@pytest.mark.parametrize("known", [BAD, {4}])
def test_what_was_refused_may_be_left_out_of_a_repeat(home, make, known):
    """Where a part ends is not counted anew: it ends where it did, although there are fewer deliveries."""
    sink = make(columns={"n": "bigint not null"})
    attempt(sink, place(), numbered(EVERYTHING))
    before = marks(home, "part, rows, digest, refused, written_at")
    home.consume()
    again = attempt(sink, place(), numbered([n for n in EVERYTHING if n not in known]))
    assert refused_offsets(again) == sorted(BAD - known)
    assert home.consume() == []
    assert marks(home, "part, rows, digest, refused, written_at") == before


def test_parts_do_not_depend_on_how_deliveries_are_handed_over(home, make):
    attempt(make(), place(), unit(range(10)))
    home.consume()
    assert attempt(make(), place(), *(unit([n]) for n in range(10))) == []
    assert home.consume() == []
    assert marks(home) == ([(0, 4), (1, 4), (2, 2)] if home.is_sqlite else [(0, 10)])


def test_parts_are_bounded_by_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(table_writer, "PART_BYTES", 1_000)
    home = Home(f"sqlite:///{tmp_path}/out.db", "public")
    sizes = [10, 2_000, 10, 450, 450, 450, 10]
    handed = unit(range(7), [b'"%s"' % (b"x" * (size - 2)) for size in sizes])
    attempt(table("orders", **home.options), place(), handed)
    assert marks(home) == [(0, 1), (1, 1), (2, 3), (3, 2)]


def test_a_mark_of_other_deliveries_is_replaced(home, make):
    """Then rows are known by their ids alone."""
    attempt(make(), place(), unit(range(6)))
    assert attempt(make(), place(), unit(range(1, 9))) == []
    assert sorted(bytes(id) for (id,) in home.sql("select delivery_id from orders")) == sorted(delivery_ids(range(9)))
    wanted = [[1, 2, 3, 4], [5, 6], [7, 8]] if home.is_sqlite else [[1, 2, 3, 4, 5, 6, 7, 8]]
    assert marks(home, "rows, digest") == [(len(each), digest(each)) for each in wanted]
    home.consume()
    assert attempt(make(), place(), unit(range(1, 9))) == []
    assert home.consume() == []


def test_several_tables_of_a_unit_share_its_marks(home, make):
    targets = [f"orders_{n % 2}" for n in EVERYTHING]
    sink = make("orders_{region}")
    for numbers in ((range(0, 10, 2), range(1, 10, 2)), ((), ())):
        assert attempt(sink, place(), unit(EVERYTHING, targets=targets)) == []
        found = [home.consume(name) for name in ("orders_0", "orders_1")]
        assert found == [sorted(delivery_ids(each)) for each in numbers]
    assert marks(home) == ([(0, 4), (1, 4), (2, 2)] if home.is_sqlite else [(0, 10)])


def test_units_and_batches_have_marks_of_their_own(home, make):
    for at in (place(0, unit="orders/0"), place(0, unit="orders/1"), place(1, unit="orders/0")):
        assert attempt(make(), at, unit([1])) == []
        assert len(home.consume()) == 1
    assert attempt(make(), place(0, output="other"), unit([1])) == []
    assert len(home.consume()) == 1
    assert home.sql("select count(*) from towpath_mark") == [(4,)]


def test_tasks_that_begin_at_once_do_not_fail(home, make):
    """All find that tables and rows of ours are missing, or old, and make them."""
    for batch in range(2):
        barrier = threading.Barrier(4)

        def one(number: int, batch: int = batch, barrier: threading.Barrier = barrier) -> None:
            barrier.wait(WAIT_S)
            attempt(make(), place(batch * 9, unit=f"orders/{number}"), unit(range(number * 5, number * 5 + 5)))

        assert at_once(*(partial(one, number) for number in range(4))) == []
        assert home.consume() == sorted(delivery_ids(range(20)))
        assert set(marks(home, "batch_id, unit")) == {(batch * 9, f"orders/{n}") for n in range(4)}


def test_marks_of_old_batches_are_deleted(home, make):
    attempt(make(), place(0, output="another"), unit([0]))
    for batch in range(8):
        for number in range(2):
            attempt(make(), place(batch, unit=f"orders/{number}"), unit([batch]))
    kept = home.sql("select batch_id, unit from towpath_mark where output = 'output' order by 1, 2")
    assert [tuple(row) for row in kept] == [(batch, f"orders/{n}") for batch in range(4, 8) for n in range(2)]
    attempt(make(), place(0, generation=2), unit([0]))
    assert home.sql("select generation, batch_id from towpath_mark where output = 'output'") == [(2, 0)]
    assert home.sql("select count(*) from towpath_mark where output = 'another'") == [(1,)]


def test_a_writer_that_was_replaced_in_its_middle_is_refused(home, make):
    """The zombie: stopped in the middle, replaced, and awake again when all is done."""
    sink = make()
    old = sink.writer(place(launch=1))
    old.write(unit(range(6)))
    assert attempt(sink, place(launch=2), unit(EVERYTHING)) == []
    assert home.consume() == sorted(delivery_ids(EVERYTHING))
    before = marks(home, "*")
    with pytest.raises(SinkError, match=r"start 1 .*start 2") as caught:
        old.write(unit(range(6, 10)))
        old.finish()
    old.close()
    assert caught.value.code == ErrorCode.SINK_REFUSED
    assert home.consume() == []
    assert marks(home, "*") == before


def test_a_writer_that_was_replaced_cannot_begin(home, make):
    attempt(make(), place(launch=2), unit([1]))
    with pytest.raises(SinkError, match="towpath_launch"):
        make().writer(place(launch=1))
    home.sql("delete from towpath_launch")
    assert attempt(make(), place(1, launch=1), unit([2])) == []


def test_a_late_task_of_a_batch_that_is_over_is_refused(home, make):
    """Its marks may be gone already."""
    late = make().writer(place(0))
    late.write(unit(EVERYTHING))
    home.consume()
    attempt(make(), place(1), unit([10]))
    home.consume()
    with pytest.raises(SinkError, match=r"batch 0 of generation 1.*batch 1 of generation 1"):
        late.finish()
    late.close()
    assert home.consume() == []


def test_a_fence_is_one_output_s(home, make):
    attempt(make(), place(5, launch=9), unit([1]))
    for other in (place(0, output="other"), place(0, stage="other"), place(0, flow="other")):
        assert attempt(make(), other, unit([2])) == []
    assert sorted(home.sql("select launch, batch_id from towpath_launch")) == [(1, 0)] * 3 + [(9, 5)]


def test_a_row_of_the_fence_that_somebody_deleted_comes_back(home, make):
    writer = make().writer(place(3, launch=4))
    home.sql("delete from towpath_launch")
    writer.write(unit(EVERYTHING))
    assert list(writer.finish()) == []
    writer.close()
    assert home.sql("select launch, batch_id from towpath_launch") == [(4, 3)]


def test_launch_zero_has_no_fence(home, make):
    attempt(make(), place(1, launch=2), unit([1]))
    assert attempt(make(), place(0, launch=0), unit([2])) == []
    assert home.sql("select launch from towpath_launch") == [(2,)]
    assert len(home.consume()) == 2
