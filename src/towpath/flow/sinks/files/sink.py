"""Files as a sink: JSON lines or Parquet, one file for each batch and unit in each directory.

A file is written under a hidden name and renamed when the unit is finished, so readers see whole files only. Its name
comes from the batch and the unit: another attempt replaces it with the same. What a killed attempt left is deleted by
the next one; an attempt that was taken for dead and goes on finds its own files gone, and fails. Beside a file of JSON
lines stands a hidden one with the ids, for the audit.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from towpath.core import crash
from towpath.core.crash import CrashPoint
from towpath.errors import BadFlow, NeedsPerson, SinkError
from towpath.flow.failures import ErrorCode
from towpath.flow.sinks.files.formats import JsonFile, OpenFile, ParquetFile, sync
from towpath.flow.sinks.sink import Deliveries, Refusal, WriterContext
from towpath.flow.sinks.template import Template
from towpath.settings import Settings

if TYPE_CHECKING:
    import pyarrow


COMPRESSIONS = {"json": (None, "gzip"), "parquet": ("zstd", "snappy", "lz4", "gzip", "none")}
ENDINGS = {"json": ".jsonl", "parquet": ".parquet"}
OWN_COLUMNS = ("id", "delivery_id", "version", "document")
MAX_NAME_BYTES = 255
MAX_PATH_BYTES = 3_500
MAX_OPEN = 200  # Parquet files are open until they are whole
MAX_BUFFERED_BYTES = 64 << 20


def files(
    directory: str | os.PathLike[str],
    *,
    format: Literal["json", "parquet"] = "json",
    schema: pyarrow.Schema | None = None,
    compression: str | None = None,
) -> FilesSink:
    """JSON lines or Parquet files in a directory, or in one for each value: `files("events/{day}")`.

    With executors on other hosts the directory has to be on a file system that all share. Parquet files have the
    columns `id`, `delivery_id`, `version` and `document`, the whole record as text; `schema` adds typed ones, filled
    from the fields of the same name. `compression` is None or `gzip` for JSON lines; `zstd` (the default), `snappy`,
    `lz4`, `gzip` or `none` for Parquet.
    """
    if format not in ENDINGS:
        raise BadFlow(f"format is 'json' or 'parquet', not {format!r}")
    if format == "json" and schema is not None:
        raise BadFlow("a schema is for format='parquet'; JSON lines are the records as they are")
    chosen = compression or COMPRESSIONS[format][0]
    if chosen not in COMPRESSIONS[format]:
        raise BadFlow(f"compression of {format} is one of {', '.join(map(str, COMPRESSIONS[format]))}, not {chosen!r}")
    taken = sorted(set(OWN_COLUMNS) & set(schema.names if schema is not None else ()))
    if taken:
        raise BadFlow(f"schema: {taken[0]!r} is a column of Towpath's own")
    if not os.fspath(directory):
        raise BadFlow("a directory has a name")
    # The workers may stand in another directory than the flow file.
    target = Template(os.path.abspath(os.path.expanduser(directory)))
    return FilesSink(target, format, schema, chosen, os.fspath(directory))


@dataclass(frozen=True, slots=True)
class FilesSink:
    """Made by `files`."""

    target: Template
    format: str
    schema: Any
    compression: str | None
    shown: str  # the directory as it was given
    id = None
    routing = None
    is_idempotent = True
    may_refuse = False

    @property
    def root(self) -> Path:
        """The directory that all files are below."""
        fixed = []
        for part in Path(self.target.text).parts:
            if not Template(part).is_fixed:
                break
            fixed.append(Template(part).filler()({}))
        return Path(*fixed)

    @property
    def ending(self) -> str:
        return ENDINGS[self.format] + (".gz" if self.format == "json" and self.compression == "gzip" else "")

    def check(self, settings: Settings) -> None:
        """Make the directory, and a file in it."""
        probe = self.root / f".towpath-{uuid4().hex}.tmp"
        with disk_errors(str(self.target)):
            self.root.mkdir(parents=True, exist_ok=True)
            try:
                probe.write_bytes(b"towpath")
            finally:
                probe.unlink(missing_ok=True)

    def writer(self, place: WriterContext) -> FilesWriter:
        return FilesWriter(self, place)

    def __str__(self) -> str:
        return f"files {self.shown}"


class FilesWriter:
    """Writes the files of one unit of one batch."""

    def __init__(self, sink: FilesSink, place: WriterContext) -> None:
        self._sink = sink
        self._name = file_name(place) + sink.ending
        self._attempt = uuid4().hex[:12]
        self._is_safe = safe_targets(sink.target)
        self._open: dict[str, OpenFile] = {}
        self._changed: set[Path] = set()  # directories with new entries

    def write(self, deliveries: Deliveries) -> list[Refusal]:
        refusals: list[Refusal] = []
        with disk_errors(str(self._sink.target)):
            for target, places in deliveries.by_target().items():
                if target in self._open or self._is_safe(target):
                    refusals += self._file(target).add(deliveries, places)
                else:
                    text = (
                        f"{target[:200]!r} cannot be a directory: a field is empty, too long, or has / or a dot first"
                    )
                    refusals += [Refusal(deliveries, at, ErrorCode.ITEM_REFUSED, "BadDirectory", text) for at in places]
            if sum(each.buffered for each in self._open.values()) > MAX_BUFFERED_BYTES:
                for each in self._open.values():
                    each.flush()
        return refusals

    def finish(self) -> list[Refusal]:
        with disk_errors(str(self._sink.target)):
            for each in self._open.values():
                each.complete()
            crash.here(CrashPoint.FILES_COMPLETE)
            for each in self._open.values():
                each.publish()
                crash.here(CrashPoint.FILE_PUBLISHED)
                self._changed.add(each.path.parent)
            for directory in sorted(self._changed):
                sync(directory)
        crash.here(CrashPoint.FILES_SYNCED)
        self._open.clear()
        return []

    def close(self) -> None:
        for each in self._open.values():
            each.discard()
        self._open.clear()

    def _file(self, target: str) -> OpenFile:
        found = self._open.get(target)
        if found is None:
            if self._sink.format == "parquet" and len(self._open) >= MAX_OPEN:
                text = f"more than {MAX_OPEN} directories in one batch; use fewer, or format='json'"
                raise NeedsPerson(ErrorCode.SINK_REFUSED, str(self._sink), text)
            found = self._open[target] = self._begin(Path(target))
        return found

    def _begin(self, directory: Path) -> OpenFile:
        self._changed.update(_made(directory))
        path = directory / self._name
        for left in directory.glob(f".{glob.escape(self._name)}.*.tmp"):
            left.unlink(missing_ok=True)
        aside = directory / f".{self._name}.{self._attempt}.tmp"
        if self._sink.format == "parquet":
            return ParquetFile(path, aside, self._sink.schema, self._sink.compression or "none")
        return JsonFile(path, aside, self._sink.compression == "gzip")


def file_name(place: WriterContext) -> str:
    """The same for every attempt at a unit, and no other unit's."""
    exact = sha256("\0".join((place.hash, place.output, place.unit)).encode()).hexdigest()
    readable = re.sub(r"[^A-Za-z0-9._=-]", "_", f"{place.output}-{place.unit}")[:80]
    return f"{place.hash[:16]}-{readable}-{exact[:16]}"


def safe_targets(template: Template) -> Callable[[str], bool]:
    """A test of filled directories: whether one is where the template says, whatever was in the fields."""
    pattern = ""
    for literal, name, _, _ in Formatter().parse(template.text):
        pattern += re.escape(literal) + (r"[^/\x00]+" if name is not None else "")
    fits = re.compile(pattern).fullmatch
    fixed = [Template(part).is_fixed for part in Path(template.text).parts]

    def is_safe(target: str) -> bool:
        parts = Path(target).parts
        if not fits(target) or len(parts) != len(fixed) or len(os.fsencode(target)) > MAX_PATH_BYTES:
            return False
        # A name with a dot in front would be hidden from those who read the files.
        return all(
            is_fixed or (not part.startswith(".") and len(os.fsencode(part)) <= MAX_NAME_BYTES)
            for is_fixed, part in zip(fixed, parts, strict=True)
        )

    return is_safe


@contextmanager
def disk_errors(sink: str) -> Iterator[None]:
    """A disk that is full, read-only or gone is an outage: it ends."""
    try:
        yield
    except OSError as error:
        raise SinkError(
            ErrorCode.SINK_UNAVAILABLE, sink, f"{error.strerror or error}: {error.filename or ''}"
        ) from error


def _made(directory: Path) -> list[Path]:
    """Make it; returns the directories that have a new entry."""
    missing = []
    while not directory.is_dir():
        missing.append(directory)
        directory = directory.parent
    for each in reversed(missing):
        each.mkdir(exist_ok=True)
    return [each.parent for each in missing]
