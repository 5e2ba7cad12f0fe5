"""From the graph of a stage to a Spark job: DataFrame steps stay in the JVM, all between them becomes segments.

A DataFrame on its way has the columns of its step and one more, `_record`: the record that a row comes from, whole. A
step must pass it on, or nobody could say any more where its rows come from.

Work in Python is put off as long as possible: a source and the `each` steps and loads that stand on it become one
segment, so that a record crosses into Python once. Columns that no step has touched keep their identity in Spark's own
plan (`exprId`); by that it is known which fields to splice into the text of a record and which to leave as they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from towpath.errors import BadFlow, TowpathError
from towpath.flow.delivery import DeliveryIds
from towpath.flow.endings import chain_of, common, root_of, template_fields
from towpath.flow.frames import (
    ROW_BY_ROW,
    UNION,
    identities,
    is_deterministic,
    nothing,
    only,
    operations,
    spark_schema,
    together,
    with_set_headers,
)
from towpath.flow.graph import Stage
from towpath.flow.nodes import Each, Expectation, Node, Source, Step
from towpath.flow.taking import check_types, taken
from towpath.flow.worker.batch_place import BatchPlace
from towpath.flow.worker.calling import Call
from towpath.flow.worker.giving import GiveColumns
from towpath.flow.worker.decision import units_of
from towpath.flow.worker.load_decided import LoadDecided
from towpath.flow.worker.loading import Deliver, Load
from towpath.flow.worker.preparing import HIDDEN, Columns
from towpath.flow.worker.reading import UNMET, Excluded, ReadColumns, ReadRecords
from towpath.flow.worker.records import RECORD
from towpath.flow.worker.segment import Segment
from towpath.log.spark_columns import SCHEMA
from towpath.settings import Settings

NOTHING = "nothing int"


@dataclass(frozen=True, slots=True)
class Rows:
    """What a node gives: a DataFrame, and the work in Python that is still to be done on it."""

    frame: DataFrame
    begin: ReadRecords | None  # None: the frame has columns and `_record`
    kept: frozenset[str] = frozenset()  # columns that are as they were read
    fields: frozenset[str] | None = None  # the fields that were read into columns; None: no schema
    only: frozenset[str] | None = None  # the fields that may stay in the text; None: all
    unmet: str | None = None  # the step whose expectations are in the frame's column `_unmet`

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name in self.frame.columns if name not in (RECORD, UNMET))


class Plan:
    """The job of one batch of a stage."""

    def __init__(
        self,
        stage: Stage,
        batch: BatchPlace,
        excluded: Excluded,
        max_record_bytes: int,
        *,
        buckets: int = 1,
        decides: bool = False,
        reads_first: bool = False,
    ) -> None:
        self._stage = stage
        self._buckets = buckets
        self._decides = decides
        self._shuffles = False
        # Steps of the user's may give something else each time; an each step says so if it does not.
        self.is_deterministic = all(node.deterministic for node in stage.nodes if isinstance(node, Each))
        self._batch = batch
        self._excluded = excluded
        self._max_record_bytes = max_record_bytes
        self._reads_first = reads_first
        self._made: dict[int, Rows] = {}
        self._kept: list[DataFrame] = []
        self.chain: list[tuple[str, str]] = []  # the segments in order, with the step that stands before each

    def job(self, records: DataFrame) -> DataFrame:
        """A DataFrame that does the work when it is collected; it gives no rows."""
        records = with_set_headers(records)
        self._made = {id(source): self._read(records, source) for source in self._stage.sources}
        roots = {id(root): root for root in map(root_of, self._stage.outputs)}
        if len(roots) > 1:
            names = " and ".join(repr(root.name) for root in roots.values())
            raise BadFlow(
                f"the outputs of stage {self._stage.name!r} stand on {names}; as yet all outputs of a stage must stand "
                "on one source or DataFrame step, with each steps between"
            )
        [root] = roots.values()
        return self._loaded(root, self._rows(root))

    def _loaded(self, root: Node, rows: Rows) -> DataFrame:
        outputs = self._stage.outputs
        chains = [chain_of(output) for output in outputs]
        shared = common(chains)
        columns = self._columns(rows)
        loads = tuple(
            Load(output.name, output.sink, tuple(map(self._call, chain[len(shared) :])), columns)
            for output, chain in zip(outputs, chains, strict=True)
        )
        begin: ReadRecords | ReadColumns
        if rows.begin is not None:
            begin, frame = rows.begin, rows.frame
        else:
            for first in (chain[0] for chain in chains if chain):
                check_types(rows.frame, first)
            names = self._needed(rows, has_calls=any(chains))
            begin, frame = self._read_columns(rows, root, names)
        end = Deliver(loads, self._buckets if self._shuffles else None, self._decides)
        segment = self._segment(root.name, begin, tuple(map(self._call, shared)), end)
        return frame.mapInArrow(segment, NOTHING)

    def _read_columns(self, rows: Rows, node: Node, names: tuple[str, ...]) -> tuple[ReadColumns, DataFrame]:
        has_unmet = rows.unmet is not None
        return ReadColumns(rows.unmet or node.name, names, has_unmet), only(rows.frame, names, has_unmet)

    def _columns(self, rows: Rows) -> Columns:
        if rows.begin is not None:
            return Columns(only=rows.only)
        fields = rows.fields or frozenset()
        visible = {name for name in rows.columns if name in fields or not name.startswith(HIDDEN)}
        changed = frozenset(visible - rows.kept)
        return Columns(changed, fields - visible, None if rows.only is None else rows.only | changed, fields)

    def _needed(self, rows: Rows, *, has_calls: bool) -> tuple[str, ...]:
        """The columns that are needed as Python values: all for functions, else what was changed or makes names."""
        names = rows.columns
        if has_calls:
            return names
        asked = {field for output in self._stage.outputs for field in template_fields(output)}
        if missing := sorted(asked - set(names)):
            raise BadFlow(
                f"an output names field {missing[0]!r}, which is no column of what it loads; it has {', '.join(names)}"
            )
        changed = self._columns(rows).changed
        return tuple(name for name in names if name in changed or name in asked)

    def _rows(self, node: Node) -> Rows:
        made = self._made.get(id(node))
        if made is None:
            assert isinstance(node, Step)  # noqa: S101 - sources are made first, each steps belong to segments
            made = self._made[id(node)] = self._step(node, self._given(self._single(node), node))
        return made

    def _single(self, step: Step) -> Node:
        if len(step.inputs) == 1:
            return step.inputs[0]
        raise BadFlow(f"step {step.name!r} has several inputs; give it one source of several topics: topic('a', 'b')")

    def _read(self, records: DataFrame, source: Source) -> Rows:
        begin = ReadRecords(
            source.name,
            self._max_record_bytes,
            source.duplicates,
            source.schema,
            self._excluded,
            self._batch.reentry,
        )
        schema = source.schema
        only = schema.known if schema is not None and schema.extra == "drop" else None
        rows = Rows(records, begin, only=only)
        return rows if not source.expectations else self._give_read(rows, source)

    def _given(self, node: Node, user: Step) -> Rows:
        """What a node gives as columns, its work in Python done."""
        if isinstance(node, Each):
            raise BadFlow(
                f"step {user.name!r} stands on each {node.name!r}, whose columns are not known; put the step before it"
            )
        rows = self._rows(node)
        if isinstance(node, Source) and rows.begin is not None:
            return self._give_read(rows, node)
        return rows if rows.unmet is None else self._gate(rows, node)

    def _give_read(self, rows: Rows, source: Source) -> Rows:
        assert rows.begin is not None  # noqa: S101 - nobody has read them yet
        schema = pa.schema([]) if source.schema is None else source.schema.arrow(nullable=True)
        end = GiveColumns(schema)
        frame = rows.frame.mapInArrow(self._segment(source.name, rows.begin, (), end), spark_schema(end.arrow()))
        fields = frozenset(schema.names)
        given = Rows(frame, None, fields, fields, rows.only)
        if self._reads_first:
            self._read_once(given)
        return _expecting(given, source.name, source.expectations)

    def _read_once(self, rows: Rows) -> None:
        """Keep what was read, so that every record is read once and to its end, whatever the steps make of it.

        Spark leaves out what it can show to be of no use: with a limit, an empty join or a filter that is never true,
        records would not be read at all, and what is wrong with them would not be told.
        """
        if not rows.frame.is_cached:
            self._kept.append(rows.frame.persist())

    def run(self, records: DataFrame) -> None:
        """Do all the work."""
        job = self.job(records)
        try:
            for frame in self._kept:
                frame.foreachPartition(nothing)
            job.collect()
        finally:
            for frame in self._kept:
                frame.unpersist()

    def _gate(self, rows: Rows, node: Node) -> Rows:
        """Takes out the rows that do not meet an expectation, before the next step sees them."""
        frame = only(rows.frame, rows.columns, has_unmet=True)
        begin = ReadColumns(rows.unmet or node.name, (), has_expectations=True)
        schema = to_arrow_schema(frame.drop(RECORD, UNMET).schema, timezone="UTC")
        segment = self._segment(node.name, begin, (), GiveColumns(schema))
        passed = frame.mapInArrow(segment, frame.drop(UNMET).schema)
        return replace(rows, frame=passed, unmet=None)

    def _step(self, step: Step, given: Rows) -> Rows:
        back = self._batch.reentry
        given = replace(given, frame=taken(given.frame, step, None if back is None else back.topic))
        before = identities(given.frame)
        frame = step.function(given.frame)
        if not isinstance(frame, DataFrame):
            raise BadFlow(f"step {step.name!r} returns a DataFrame, not {type(frame).__name__}")
        after = identities(frame)
        if after.get(RECORD) != before[RECORD]:
            raise BadFlow(
                f"step {step.name!r} loses the column {RECORD}, by which every row is known; add it: "
                f'.select(…, "{RECORD}")'
            )
        kept = frozenset(name for name in given.kept if after.get(name) == before.get(name))
        nodes = operations(frame)
        self.is_deterministic &= is_deterministic(given.frame, frame) if step.deterministic is None else step.deterministic
        if not nodes <= ROW_BY_ROW:
            self._read_once(given)
            self._shuffles = True
            frame = together(frame, self._buckets)
        if UNION in nodes:
            # It passes the columns of its first part off as those of all parts.
            kept = frozenset()
        return _expecting(Rows(frame, None, kept, given.fields, given.only), step.name, step.expectations)

    def _call(self, each: Each) -> Call:
        batch = self._batch
        ids = DeliveryIds(batch.flow, batch.stage, "")
        return Call(
            each.name, each.function, each.timeout_s, each.wants_record, each.takes, batch.topic_ids, ids, batch.reentry
        )

    def _segment(
        self,
        after: str,
        begin: ReadRecords | ReadColumns,
        calls: tuple[Call, ...],
        end: GiveColumns | Deliver,
    ) -> Segment:
        name = f"segment{len(self.chain)}"
        self.chain.append((name, after))
        return Segment(name, begin, calls, end, self._batch)


def _expecting(rows: Rows, step: str, rules: Sequence[Expectation]) -> Rows:
    if not rules:
        return rows
    names = [F.when(~F.coalesce(F.expr(rule.expression), F.lit(False)), F.lit(rule.name)) for rule in rules]
    unmet = F.nullif(F.concat_ws(", ", *names), F.lit(""))
    return replace(rows, frame=rows.frame.withColumn(UNMET, unmet), unmet=step)


def load_decided(spark: SparkSession, stage: Stage, batch: BatchPlace, decision: Path) -> None:
    """Load what was decided: a task for each unit, from its files."""
    units = units_of(decision)
    if units:
        load = LoadDecided(tuple(units), {output.name: output.sink for output in stage.outputs}, batch)
        spark.range(0, len(units), numPartitions=len(units)).mapInArrow(load, NOTHING).collect()


def check_plan(spark: SparkSession, stage: Stage, settings: Settings) -> bool:
    """Put the plan together on no records, so that what is wrong with its steps shows before a query starts.

    Returns whether all that it does is the same however often it is done.
    """
    records = spark.createDataFrame([], SCHEMA)
    home = Path(settings.flow.directory).absolute()
    home.mkdir(parents=True, exist_ok=True)
    try:
        # A step that counts or collects has the work done at once, and workers want a place for their reports.
        with TemporaryDirectory(prefix="check-", dir=home) as directory:
            place = BatchPlace("", stage.name, "", directory, "", settings)
            plan = Plan(stage, place, {}, settings.flow.max_record_bytes)
            plan.job(records)
            return plan.is_deterministic
    except TowpathError:
        raise
    except Exception as error:
        raise BadFlow(f"stage {stage.name!r}: {str(error).partition(chr(10))[0]}") from error
