"""Reading back what files hold, for the audit: ids and counts, never documents."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from towpath.errors import SinkError
from towpath.flow.failures import ErrorCode
from towpath.flow.sinks.files.formats import ids_path
from towpath.flow.sinks.files.sink import FilesSink
from towpath.flow.sinks.sink import Flaw, FoundDelivery, SinkReader

CHUNK = 1 << 20


@dataclass
class FilesReader(SinkReader):
    """All files below a directory. Each batch has files of its own."""

    sink: FilesSink
    flaws: list[Flaw] = field(default_factory=list)
    per_batch = True

    def delivered(self) -> Iterator[FoundDelivery]:
        self.flaws = []
        try:
            for file in written_files(self.sink):
                if file.count != len(file.delivery_ids):
                    self.flaws.append(Flaw(str(file.path), f"{len(file.delivery_ids)} records", f"{file.count}"))
                for id, name in zip(file.delivery_ids, file.ids, strict=True):
                    yield FoundDelivery(id, f"{name} in {file.path}")
        except SinkError as error:
            self.flaws.append(Flaw(error.target, "a file with its ids", str(error)))


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """One file: how many records it has, and which, in their order."""

    path: Path
    count: int
    delivery_ids: list[bytes]
    versions: list[int]
    ids: list[str]


def written_files(sink: FilesSink) -> Iterator[WrittenFile]:
    """All files of the sink, by name. `SinkError` when one has no ids beside it: its records cannot be told."""
    read = _parquet if sink.format == "parquet" else _lines
    for path in sorted(sink.root.rglob(f"*{sink.ending}")):
        if not path.name.startswith("."):
            yield read(path)


def _lines(path: Path) -> WrittenFile:
    try:
        rows = [orjson.loads(line) for line in ids_path(path).read_bytes().splitlines()]
    except OSError as error:
        raise SinkError(ErrorCode.SINK_UNAVAILABLE, str(path), f"its ids cannot be read: {error}") from error
    delivery_ids = [bytes.fromhex(row[0]) for row in rows]
    return WrittenFile(path, _count_lines(path), delivery_ids, [row[1] for row in rows], [row[2] for row in rows])


def _count_lines(path: Path) -> int:
    count = 0
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        while chunk := file.read(CHUNK):
            count += chunk.count(b"\n")
    return count


def _parquet(path: Path) -> WrittenFile:
    from pyarrow import parquet

    # Not `read_table`: in a directory named `day=1` it would add a column of that name.
    found = parquet.ParquetFile(path).read(columns=["id", "delivery_id", "version"])
    columns = {name: found.column(name).to_pylist() for name in found.column_names}
    return WrittenFile(path, found.num_rows, columns["delivery_id"], columns["version"], columns["id"])
