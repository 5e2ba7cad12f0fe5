"""The files sink on a real directory: whole files or none, the same after a repeat, nothing outside."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet
from tests.integration.test_sink_index import PLACE, deliveries, through_pickle, write

from towpath.errors import NeedsPerson, SinkError
from towpath.flow.failures import ErrorCode
from towpath.flow.sinks.files import formats as file_formats
from towpath.flow.sinks.files import sink as files_module
from towpath.flow.sinks.files.reader import written_files
from towpath.flow.sinks.files.sink import FilesSink, files
from towpath.flow.sinks.sink import Deliveries

FORMATS = [("json", None), ("json", "gzip"), ("parquet", None)]


@pytest.fixture(params=FORMATS, ids=lambda each: f"{each[0]}-{each[1]}")
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> FilesSink:
    """Every format in turn, into one directory for each day."""
    format, compression = request.param
    return files(tmp_path / "out" / "{day}", format=format, compression=compression)


def handed(sink: FilesSink, documents: list[Any], days: list[str], **columns: Any) -> Deliveries:
    root = str(sink.root)
    return deliveries(documents, targets=[f"{root}/{day}" for day in days], **columns)


def everything(sink: FilesSink) -> dict[str, list[Any]]:
    """All records by directory, read as a stranger would."""
    found: dict[str, list[Any]] = {}
    for path in sorted(sink.root.rglob("*")):
        if path.is_dir() or path.name.startswith("."):
            continue
        if path.suffix == ".parquet":
            texts = parquet.ParquetFile(path).read().column("document").to_pylist()
        else:
            data = path.read_bytes()
            texts = (gzip.decompress(data) if path.suffix == ".gz" else data).decode().splitlines()
        found.setdefault(str(path.parent.relative_to(sink.root)), []).extend(map(json.loads, texts))
    return found


def hidden(sink: FilesSink) -> list[str]:
    return sorted(path.name for path in sink.root.rglob(".*") if path.suffix == ".tmp")


def test_records_go_to_the_files_of_their_directory(sink):
    documents = [{"n": n, "text": "ä\n"} for n in range(10)]
    assert write(sink, handed(sink, documents, ["mon", "tue"] * 5)) == []
    assert everything(sink) == {"mon": documents[0::2], "tue": documents[1::2]}
    assert hidden(sink) == []


def test_a_repeat_replaces_files_with_the_same(sink):
    given = handed(sink, [{"n": n} for n in range(10)], ["mon"] * 10)
    assert write(sink, given) == []
    first = {path.name: path.read_bytes() for path in sink.root.rglob("*") if path.is_file()}
    assert write(sink, given) == []
    assert {path.name: path.read_bytes() for path in sink.root.rglob("*") if path.is_file()} == first


def test_units_and_batches_have_files_of_their_own(sink):
    units = ["clicks/0", "clicks_0", "clicks/1", "../../x", "a" * 300, ""]
    for unit in units:
        for batch in ("b" * 64, "c" * 64):
            writer = sink.writer(replace(PLACE, hash=batch, unit=unit))
            assert writer.write(handed(sink, [{"unit": unit, "batch": batch}], ["mon"])) == []
            assert writer.finish() == []
            writer.close()
    assert len(everything(sink)["mon"]) == 2 * len(units)
    assert all(len(path.name) < 200 for path in sink.root.rglob("*"))


def test_nothing_is_seen_before_the_end(sink):
    writer = sink.writer(PLACE)
    writer.write(handed(sink, [{"n": 1}], ["mon"]))
    assert everything(sink) == {}
    assert writer.finish() == []
    assert everything(sink) == {"mon": [{"n": 1}]}
    writer.close()


def test_an_attempt_that_is_given_up_leaves_nothing(sink):
    writer = sink.writer(PLACE)
    writer.write(handed(sink, [{"n": 1}], ["mon"]))
    writer.close()
    assert everything(sink) == {}
    assert hidden(sink) == []


KILLED = """
import os, pickle, signal, sys
sink, place, given = pickle.loads(sys.stdin.buffer.read())
writer = sink.writer(place)
writer.write(given)
for each in writer._open.values():
    each.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_attempt_left_is_deleted_by_the_next(sink):
    given = handed(sink, [{"n": n} for n in range(10)], ["mon"] * 10)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED], input=pickle.dumps((sink, PLACE, given)), timeout=60, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert hidden(sink) != []
    other = sink.root / "mon" / ".another-unit.jsonl.abc.tmp"
    other.write_text("another unit is still at work")
    assert write(sink, given) == []
    assert hidden(sink) == [other.name]
    assert everything(sink) == {"mon": [{"n": n} for n in range(10)]}


def test_a_writer_that_was_replaced_in_its_middle_does_no_harm(sink, monkeypatch):
    """The zombie: its successor has deleted the half that it had written. It must not publish the other half alone."""
    monkeypatch.setattr(file_formats, "BUFFER_BYTES", 1)
    monkeypatch.setattr(file_formats, "GROUP_ROWS", 1)
    given = [handed(sink, [{"n": n, "day": day} for n in range(3)], [day] * 3) for day in ("mon", "tue", "mon")]
    old = sink.writer(PLACE)
    for each in given[:2]:
        old.write(each)
    assert write(sink, *given) == []
    whole = everything(sink)
    assert [len(whole[day]) for day in ("mon", "tue")] == [6, 3]
    with pytest.raises(SinkError, match="No such file"):
        old.write(given[2])
        old.finish()
    old.close()
    assert everything(sink) == whole
    assert sorted(len(file.delivery_ids) for file in written_files(sink)) == [3, 6]
    assert hidden(sink) == []


def test_a_writer_that_comes_late_publishes_the_same(sink):
    """Two that are at work side by side: whoever is last replaces files by the same."""
    given = handed(sink, [{"n": n} for n in range(4)], ["mon", "tue"] * 2)
    first, second = sink.writer(PLACE), sink.writer(PLACE)
    second.write(given)
    second.finish()
    whole = everything(sink)
    first.write(given)
    first.finish()
    assert everything(sink) == whole == {"mon": [{"n": 0}, {"n": 2}], "tue": [{"n": 1}, {"n": 3}]}
    for writer in (first, second):
        writer.close()


@pytest.mark.parametrize(
    "day", ["..", "../..", ".", "", "a/b", "/etc", "a/../../b", "nul\x00", ".hidden", "x" * 256, "ü" * 200]
)
def test_fields_never_lead_elsewhere(sink, tmp_path, day):
    before = sorted(tmp_path.rglob("*"))
    given = handed(sink, [{"n": 1}, {"n": 2}], ["mon", day])
    [refusal] = write(sink, given)
    assert (refusal.at, refusal.code, refusal.exception) == (1, ErrorCode.ITEM_REFUSED, "BadDirectory")
    assert everything(sink) == {"mon": [{"n": 1}]}
    added = [path for path in tmp_path.rglob("*") if path not in before]
    assert all(path.is_relative_to(tmp_path / "out") for path in added)


def test_a_field_in_the_middle_of_a_name_is_not_empty(tmp_path):
    sink = files(tmp_path / "day={day}" / "x")
    given = deliveries([{}] * 3, targets=[f"{tmp_path}/day={day}/x" for day in ("1", "", "2/x/../..")])
    assert [each.at for each in write(sink, given)] == [1, 2]
    assert [path.name for path in tmp_path.iterdir()] == ["day=1"]


def test_line_ends_stay_inside_a_record(tmp_path):
    sink = files(tmp_path / "{day}")
    assert write(sink, handed(sink, [b'{\n"a":\r\n1}', b'{"a": 2}'], ["mon"] * 2)) == []
    [path] = (tmp_path / "mon").glob("*.jsonl")
    assert path.read_bytes() == b'{ "a":  1}\n{"a": 2}\n'


def test_many_directories_and_little_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(files_module, "MAX_BUFFERED_BYTES", 1_000)
    sink = files(tmp_path / "{day}")
    days = [f"d{n % 300}" for n in range(3_000)]
    documents = [{"n": n} for n in range(3_000)]
    chunks = [handed(sink, documents[at : at + 100], days[at : at + 100]) for at in range(0, 3_000, 100)]
    assert write(sink, *chunks) == []
    assert everything(sink) == {f"d{day}": documents[day::300] for day in range(300)}


def test_too_many_parquet_files_need_a_person(tmp_path, monkeypatch):
    monkeypatch.setattr(files_module, "MAX_OPEN", 3)
    sink = files(tmp_path / "{day}", format="parquet")
    with pytest.raises(NeedsPerson, match="3"):
        write(sink, handed(sink, [{}] * 4, list("abcd")))
    assert hidden(sink) == []


def test_typed_columns(tmp_path):
    schema = pyarrow.schema(
        [
            ("n", pyarrow.int64()),
            pyarrow.field("name", pyarrow.string(), nullable=False),
            ("tags", pyarrow.list_(pyarrow.string())),
        ]
    )
    sink = files(tmp_path / "{day}", format="parquet", schema=schema)
    documents: list[Any] = [
        {"n": 1, "name": "a", "tags": ["x"], "more": True},
        {"n": "two", "name": "b"},
        {"n": 3},
        {"name": "d"},
        b'{"n": 1180591620717411303424, "name": "e"}',
        {"n": 6, "name": 6},
    ]
    refusals = write(through_pickle(sink), handed(sink, documents, ["mon"] * 6))
    assert sorted((each.at, each.code, each.exception) for each in refusals) == [
        (at, ErrorCode.ITEM_REFUSED, "BadCell") for at in (1, 2, 4, 5)
    ]
    [path] = (tmp_path / "mon").glob("*.parquet")
    rows = parquet.ParquetFile(path).read().to_pylist()
    assert [(row["n"], row["name"], row["tags"]) for row in rows] == [(1, "a", ["x"]), (None, "d", None)]
    assert json.loads(rows[0]["document"]) == documents[0]


def test_the_reader_tells_which_deliveries_are_there(sink):
    given = handed(sink, [{"n": n} for n in range(4)], ["mon", "tue", "mon", "mon"], ids=["a", 'b"\n', "c", "d"])
    assert write(sink, given) == []
    found = {file.path.parent.name: file for file in written_files(sink)}
    assert sorted(found) == ["mon", "tue"]
    assert (found["mon"].count, found["mon"].ids, found["mon"].versions) == (3, ["a", "c", "d"], [0, 2, 3])
    assert found["mon"].delivery_ids == [given.delivery_ids[at] for at in (0, 2, 3)]
    assert (found["tue"].count, found["tue"].ids) == (1, ['b"\n'])


def test_the_reader_says_when_ids_are_missing(tmp_path):
    sink = files(tmp_path / "{day}")
    (tmp_path / "mon").mkdir()
    (tmp_path / "mon" / "stranger.jsonl").write_text("{}\n")
    with pytest.raises(SinkError, match="ids"):
        list(written_files(sink))


@contextmanager
def full_disk(most_bytes: int) -> Iterator[None]:
    """No file of this process can grow beyond this."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_takes_no_more_is_an_outage(sink):
    given = handed(sink, [{"text": os.urandom(50_000).hex()} for _ in range(20)], ["mon"] * 20)
    with full_disk(200_000), pytest.raises(SinkError) as caught:
        write(sink, given)
    assert caught.value.code == ErrorCode.SINK_UNAVAILABLE
    assert everything(sink) == {}
    assert hidden(sink) == []
    assert write(sink, given) == []
    assert len(everything(sink)["mon"]) == 20


def test_check_says_that_a_directory_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SinkError) as caught:
        files(tmp_path / "file" / "below").check(PLACE.settings)
    assert caught.value.code == ErrorCode.SINK_UNAVAILABLE
    files(tmp_path / "new" / "{day}").check(PLACE.settings)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["new"]
