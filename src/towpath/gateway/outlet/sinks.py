"""Sinks that keep what belongs to an upload: rows for its end (`collect`), and rows for its client (`result`).

They are files of JSON lines, written as the files sink writes them: under a hidden name, on the disk, renamed. Their
names tell generation and batch, so that only what the ledger has as committed is shown, in the order of the batches.
Collected rows can be read back, as documents without Spark and as a DataFrame with it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4

import orjson

from towpath.errors import BadFlow, BadSettings
from towpath.flow.documents.schema import Schema
from towpath.flow.sinks.files.formats import JsonFile
from towpath.flow.sinks.files.sink import FilesWriter, disk_errors, files
from towpath.flow.sinks.sink import Deliveries, Refusal, WriterContext
from towpath.flow.sinks.template import Template
from towpath.gateway.outlet.store import (
    COLLECTED,
    RESULTS,
    files_in,
    lines_name,
    stage_directories,
    stage_directory,
    uploads_root,
)
from towpath.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


UPLOADS = "TOWPATH_UPLOADS"  # in the environment of Spark's workers: the directory of uploads

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")
UPLOAD_FIELD = "upload"


def collect(name: str, *, schema: str | None = None, upload: str = UPLOAD_FIELD) -> CollectSink:
    """Keep rows until their upload ends, for steps at its end and for steps that look something up in them.

    `schema` says which columns of them such a step gets; `upload` is the field that holds the id of the upload.
    """
    _check_name("collect", name)
    if schema is not None:
        Schema.of(schema)  # what is wrong with it shows where it stands
    return CollectSink(name, _field(upload), schema)


def result(name: str, *, columns: Sequence[str] | None = None, upload: str = UPLOAD_FIELD) -> ResultSink:
    """Rows of a query, for the client of the upload, as they come.

    `columns` are those of its CSV, in their order; otherwise they are the fields of the first row, without the upload.
    """
    _check_name("result", name)
    return ResultSink(name, _field(upload), _checked_columns(name, columns))


def _checked_columns(name: str, columns: Sequence[str] | None) -> tuple[str, ...] | None:
    if columns is None:
        return None
    if isinstance(columns, str) or not columns or len(set(columns)) < len(columns):
        raise BadFlow(f'result {name!r}: columns= is several names, each once: columns=("id", "fare"), not {columns!r}')
    return tuple(columns)


def _check_name(kind: str, name: str) -> None:
    if not NAME.fullmatch(name):
        raise BadFlow(f"{kind}({name!r}): a name has letters, digits, - and _, 80 at most")


def _field(upload: str) -> str:
    if not upload.isidentifier():
        raise BadFlow(f"upload={upload!r} is not the name of a field")
    return upload


@dataclass(frozen=True, slots=True)
class UploadSink:
    """What collected rows and result rows have in common."""

    name: str
    upload: str
    part: ClassVar[str]  # the directory below that of the upload
    id = None
    routing = None
    is_idempotent = True
    may_refuse = False

    @property
    def target(self) -> Template:
        """The id of the upload; where its directory is, the settings say."""
        return Template(f"{{{self.upload}}}")

    def check(self, settings: Settings) -> None:
        """Make the directory of uploads, and a file in it."""
        root = uploads_root(settings)
        probe = root / f".towpath-{uuid4().hex}.tmp"
        with disk_errors(str(root)):
            root.mkdir(parents=True, exist_ok=True)
            try:
                probe.write_bytes(b"towpath")
            finally:
                probe.unlink(missing_ok=True)

    def writer(self, place: WriterContext) -> UploadWriter:
        return UploadWriter(self, place)


@dataclass(frozen=True, slots=True)
class CollectSink(UploadSink):
    """Made by `collect`."""

    schema: str | None = None
    part = COLLECTED

    def documents(self, upload: str, directory: Path | None = None) -> Iterator[dict[str, Any]]:
        """What was collected of an upload, in stable order; for steps, also in Spark's workers.

        It is whole once the input that it comes from has passed: let the other input wait for it (`after`).
        """
        for stage in stage_directories((directory or _environment_root()) / upload / COLLECTED / self.name):
            for file in files_in(stage):
                for line in file.path.read_bytes().splitlines():
                    yield orjson.loads(line)

    def frame(self, spark: SparkSession) -> DataFrame:
        """What was collected of all uploads that have not ended, with the id of the upload as a column."""
        if self.schema is None:
            raise BadFlow(f"collect({self.name!r}): give it a schema= to get columns of it")
        environment = spark.sparkContext.environment
        if UPLOADS not in environment:
            raise BadSettings(f"this Spark session does not know the directory of uploads ({UPLOADS})")
        root = Path(environment[UPLOADS])
        found = sorted(root.glob(f"*/{COLLECTED}/{self.name}")) if root.is_dir() else []
        paths = [file.path for each in found for stage in stage_directories(each) for file in files_in(stage)]
        is_there = self.upload in Schema.of(self.schema).names
        with_upload = self.schema if is_there else f"`{self.upload}` string, {self.schema}"
        # Files of an upload that ends meanwhile are gone; whoever looks up in them wants those of other uploads.
        return frame_of(spark, paths, with_upload, may_miss=True)

    def __str__(self) -> str:
        return f"collected {self.name}"


@dataclass(frozen=True, slots=True)
class ResultSink(UploadSink):
    """Made by `result`."""

    columns: tuple[str, ...] | None = None
    part = RESULTS

    def __str__(self) -> str:
        return f"result {self.name}"


class UploadWriter(FilesWriter):
    """Writes what one unit of one batch has for uploads, each into its own directory."""

    def __init__(self, sink: UploadSink, place: WriterContext) -> None:
        below = (sink.part, sink.name, stage_directory(place.stage))
        self._root = uploads_root(place.settings)
        self._below = "/".join(below)
        escaped = str(self._root).replace("{", "{{").replace("}", "}}")
        super().__init__(files(f"{escaped}/{{upload}}/{self._below}"), place)
        self._name = lines_name(place.generation, place.batch_id, place.output, place.unit)

    def write(self, deliveries: Deliveries) -> list[Refusal]:
        """The target of a delivery is an upload. The files sink is given its directory, and finds what is unsafe."""
        targets = {each: f"{self._root}/{each}/{self._below}" for each in set(deliveries.targets)}
        placed = replace(deliveries, targets=[targets[each] for each in deliveries.targets])
        return [refusal._replace(deliveries=deliveries) for refusal in super().write(placed)]

    def _open_file(self, path: Path, aside: Path) -> JsonFile:
        return JsonFile(path, aside, is_gzip=False, has_ids=False)


def _environment_root() -> Path:
    """The directory of uploads, as this process was told."""
    root = os.environ.get(UPLOADS)
    if not root:
        raise BadSettings(f"variable {UPLOADS} is not set: give directory=, or run the flow with towpath run")
    return Path(root)


def frame_of(spark: SparkSession, paths: Sequence[Path], schema: str, *, may_miss: bool = False) -> DataFrame:
    """The rows of files. A row that does not fit the schema fails what reads it: nothing is changed silently."""
    if not paths:
        return spark.createDataFrame([], schema)
    reader = spark.read.schema(schema).option("mode", "FAILFAST").option("ignoreMissingFiles", may_miss)
    return reader.json([path.as_uri() for path in paths])


def told_root(spark: SparkSession, root: Path) -> SparkSession:
    """The session, whose workers know the directory of uploads from now on."""
    spark.sparkContext.environment[UPLOADS] = str(root)
    return spark
