"""From the graph of a stage to a Spark job: DataFrame steps stay in the JVM, all between them becomes segments.

A DataFrame on its way has the columns of its step and one more, `_record`: the record that a row comes from, whole. A
step must pass it on, or it would be unknown where its rows come from.

Work in Python is put off as long as possible: a source and the `each` steps and loads that stand on it become one
segment, so that a record crosses into Python once. Columns that no step has touched keep their identity in Spark's own
plan (`exprId`); by that it is known which fields to splice into the text of a record and which to leave as they were.

An output is reached by one way, or by several where there are alternatives. A *way* (`OutputPath`) begins at a root, a
node whose rows come from the JVM or straight from topics, and goes through `each` steps; where one of these has several
outputs, it goes on with one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from towpath.errors import BadFlow, TowpathError
from towpath.flow.delivery.ids import DeliveryIds
from towpath.flow.graph.nodes import AnyOf, Branch, Each, Fork, Node, Output, Source, Step
from towpath.flow.graph.stages import Stage
from towpath.flow.plan.frames import (
    ROW_BY_ROW,
    UNION,
    PlanRows,
    check_types,
    columns_of,
    count_of,
    filter_rows,
    group_inputs,
    identities,
    is_deterministic,
    mark_unmet,
    nothing,
    operations,
    own_rows,
    pack_branches,
    reader_of,
    select_columns,
    spark_schema,
    unite_rows,
    with_set_headers,
)
from towpath.flow.worker.caller import StepCall
from towpath.flow.worker.context import BatchContext
from towpath.flow.worker.decision import units_of
from towpath.flow.worker.loader import EVERY_OUTPUT, Deliver, LoadDecided, OutputLoad
from towpath.flow.worker.preparer import CallPath, Columns
from towpath.flow.worker.reader import UNMET, Excluded, ReadColumns, ReadRecords
from towpath.flow.worker.records import RECORD
from towpath.flow.worker.segment import (
    GiveColumns,
    GiveSources,
    JvmBranch,
    ReadBranches,
    Segment,
    SegmentBegin,
    SegmentEnd,
)
from towpath.log.spark.columns import SCHEMA
from towpath.settings import Settings

NOTHING = "nothing int"


class Plan:
    """The job of one batch of a stage."""

    def __init__(
        self,
        stage: Stage,
        batch: BatchContext,
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
        self._shuffles = stage.is_stateful  # a task has the records of some keys then, of whatever partitions
        # Steps of the user's may give something else each time; an each step says so if it does not. Whether one keeps
        # to its time limit depends on what else the machine has to do.
        self.is_deterministic = all(
            node.deterministic and node.timeout_s is None for node in stage.nodes if isinstance(node, Each)
        )
        self._batch = batch
        self._excluded = excluded
        self._max_record_bytes = max_record_bytes
        self._reads_first = reads_first
        self._made: dict[int, PlanRows] = {}
        self._gated: dict[int, PlanRows] = {}
        self._forked: dict[int, Mapping[str, PlanRows]] = {}
        self._calls: dict[int, StepCall] = {}
        self._has_branches = False
        self._kept: list[DataFrame] = []
        self.chain: list[tuple[str, str]] = []  # the segments in order, with the step that stands before each

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

    def job(self, records: DataFrame) -> DataFrame:
        """A DataFrame that does the work when it is collected; it gives no rows."""
        records = with_set_headers(records)
        ways = [ways_to(output.input) for output in self._stage.outputs]
        roots = list({id(way.root): way.root for each in ways for way in each}.values())
        self._has_branches = len(roots) > 1
        if len(self._stage.sources) == 1:
            [source] = self._stage.sources
            self._made[id(source)] = self._read(records, source)
        elif all(isinstance(root, Source) and not root.expectations for root in roots):
            sources = self._stage.sources
            rows = [self._read(records, source) for source in sources]
            return self._delivered("", reader_of(self._stage, rows, self._batch.reentry), records, sources, ways, rows)
        else:
            self._give_sources(records)
        if not self._has_branches:
            return self._loaded(roots[0], self._rows(roots[0]), ways)
        return self._loaded_branches(roots, ways)

    def _loaded(self, root: Node, rows: PlanRows, ways: Ways) -> DataFrame:
        begin: ReadRecords | ReadColumns
        if rows.begin is not None:
            begin, frame = rows.begin, rows.frame
        else:
            names, has_unmet = needed(root, rows, self._stage.outputs, ways), rows.unmet is not None
            begin, frame = (
                ReadColumns(rows.unmet or root.name, names, has_unmet),
                select_columns(rows.frame, names, has_unmet),
            )
        name = root.fork.name if isinstance(root, Branch) else root.name
        return self._delivered(name, begin, frame, [root], ways, [rows])

    def _loaded_branches(self, roots: Sequence[Node], ways: Ways) -> DataFrame:
        """All branches in one DataFrame, so that an input is delivered, or fails, as a whole."""
        for root in roots:  # which shows where expectations have to be looked at before the branches part
            self._rows(root)
        rows = [self._branch(root) for root in roots]
        names = [
            () if isinstance(root, Source) else needed(root, each, self._stage.outputs, ways)
            for root, each in zip(roots, rows, strict=True)
        ]
        branches = [
            JvmBranch(each.unmet or root.name, None if isinstance(root, Source) else own)
            for root, each, own in zip(roots, rows, names, strict=True)
        ]
        self._shuffles = True
        frame = pack_branches(list(zip(rows, names, strict=True)), self._buckets)
        forks = {root.fork.name if isinstance(root, Branch) else EVERY_OUTPUT for root in roots}
        after = forks.pop() if len(forks) == 1 else EVERY_OUTPUT
        return self._delivered(after, ReadBranches(tuple(branches)), frame, roots, ways, rows)

    def _branch(self, root: Node) -> PlanRows:
        """What a branch ends with. Rows that do not meet an expectation stay in it, and fail with their input."""
        rows = self._rows(root)
        if isinstance(root, Source) and len(self._stage.sources) == 1:
            return self._given(root, root)
        if rows.unmet is not None and id(root) in self._gated:
            return self._gated[id(root)]
        return rows

    def _delivered(
        self,
        after: str,
        begin: SegmentBegin,
        frame: DataFrame,
        roots: Sequence[Node],
        ways: Ways,
        rows: Sequence[PlanRows],
    ) -> DataFrame:
        shared = [] if len(roots) > 1 else shared_calls([way for each in ways for way in each])
        loads = loads_of(self._stage.outputs, ways, len(shared), roots, rows, self._call)
        end = Deliver(loads, self._buckets if self._shuffles else None, self._decides)
        segment = self._segment(after or roots[0].name, begin, tuple(map(self._call, shared)), end)
        return frame.mapInArrow(segment, NOTHING)

    def _rows(self, node: Node) -> PlanRows:
        made = self._made.get(id(node))
        if made is None:
            match node:
                case Step():
                    made = self._step(node, self._given(self._single(node), node))
                case Branch(fork=Fork() as fork):
                    made = self._fork(fork)[node.output]
                case _:
                    raise BadFlow(f"{node.name!r} cannot stand there")
            self._made[id(node)] = made
        return made

    def _single(self, step: Step | Fork) -> Node:
        if len(step.inputs) == 1:
            return step.inputs[0]
        raise BadFlow(f"step {step.name!r} has several inputs; give it one source of several topics: topic('a', 'b')")

    def _read(self, records: DataFrame, source: Source) -> PlanRows:
        begin = ReadRecords(
            source.name,
            self._max_record_bytes,
            source.duplicates,
            source.schema,
            self._excluded,
            self._batch.reentry,
            self._batch.blocks,
        )
        schema = source.schema
        only = schema.known if schema is not None and schema.extra == "drop" else None
        rows = PlanRows(records, begin, only=only)
        return rows if not source.expectations else self._give_read(rows, source)

    def _give_sources(self, records: DataFrame) -> None:
        """Reads the records of several sources once; each has those of its topics."""
        sources = self._stage.sources
        rows = [self._read(records, replace(source, expectations=())) for source in sources]
        end = GiveSources(tuple(map(columns_of, sources)))
        segment = self._segment(sources[0].name, reader_of(self._stage, rows, self._batch.reentry), (), end)
        frame = records.mapInArrow(segment, spark_schema(end.arrow()))
        self._read_once(PlanRows(frame, None))
        for number, source in enumerate(sources):
            self._made[id(source)] = own_rows(frame, number, source, rows[number].only)

    def _given(self, node: Node, user: Node) -> PlanRows:
        """What a node gives as columns, its work in Python done."""
        if isinstance(node, AnyOf):
            return unite_rows(user.name, [(above.name, self._given(above, user)) for above in node.inputs])
        if isinstance(node, Each) or (isinstance(node, Branch) and isinstance(node.fork, Each)):
            raise BadFlow(
                f"step {user.name!r} stands on each {node.name!r}, whose columns are not known; put the step before it"
            )
        rows = self._rows(node)
        if isinstance(node, Source) and rows.begin is not None:
            rows = self._made[id(node)] = self._give_read(rows, node)
        if rows.unmet is None:
            return rows
        if id(node) not in self._gated:
            self._gated[id(node)] = self._gate(rows, node)
        return self._gated[id(node)]

    def _give_read(self, rows: PlanRows, source: Source) -> PlanRows:
        assert rows.begin is not None  # noqa: S101 - they are not read yet
        schema = columns_of(source)
        end = GiveColumns(schema)
        frame = rows.frame.mapInArrow(self._segment(source.name, rows.begin, (), end), spark_schema(end.arrow()))
        fields = frozenset(schema.names)
        given = PlanRows(frame, None, fields, fields, rows.only)
        if self._reads_first or self._has_branches:
            self._read_once(given)
        return mark_unmet(given, source.name, source.expectations)

    def _read_once(self, rows: PlanRows) -> None:
        """Keep what was read, so that every record is read once and to its end, whatever the steps make of it.

        Spark leaves out what it can show to be of no use: with a limit, an empty join or a filter that is never true,
        records would not be read at all, and what is wrong with them would not be told.
        """
        if not rows.frame.is_cached:
            self._kept.append(rows.frame.persist())

    def _gate(self, rows: PlanRows, node: Node) -> PlanRows:
        """Takes out the rows that do not meet an expectation, before the next step sees them."""
        is_one = len(self._stage.sources) == 1
        if not is_one or (self._has_branches and not passes_all(node, self._stage.outputs)):
            raise BadFlow(
                f"{node.name!r} has expectations, another step behind it, and stands in one of several branches of its "
                "stage; put the expectations where the branches have not parted yet, or on the last step of the branch"
            )
        frame = select_columns(rows.frame, rows.columns, has_unmet=True)
        begin = ReadColumns(rows.unmet or node.name, (), has_expectations=True)
        schema = to_arrow_schema(frame.drop(RECORD, UNMET).schema, timezone="UTC")
        segment = self._segment(node.name, begin, (), GiveColumns(schema))
        passed = frame.mapInArrow(segment, frame.drop(UNMET).schema)
        gated = replace(rows, frame=passed, unmet=None)
        if self._has_branches:
            self._read_once(gated)
        return gated

    def _step(self, step: Step, given: PlanRows) -> PlanRows:
        given = self._filtered(step, given)
        return mark_unmet(self._made_of(step, given, step.function(given.frame)), step.name, step.expectations)

    def _fork(self, fork: Fork) -> Mapping[str, PlanRows]:
        """What each output of a fork gets; nothing where its function does not name it."""
        made = self._forked.get(id(fork))
        if made is None:
            given = self._filtered(fork, self._given(self._single(fork), fork))
            frames = fork.function(given.frame)
            if not isinstance(frames, dict) or not frames.keys() <= set(fork.outputs):
                what = f"a dict of {', '.join(frames)}" if isinstance(frames, dict) else type(frames).__name__
                raise BadFlow(
                    f"fork {fork.name!r} returns a dict of DataFrames by the names of its outputs, "
                    f"{', '.join(fork.outputs)}, not {what}"
                )
            none = given.frame.where(F.lit(False))
            made = {name: self._made_of(fork, given, frames.get(name, none)) for name in fork.outputs}
            self._forked[id(fork)] = made
        return made

    def _filtered(self, step: Step | Fork, given: PlanRows) -> PlanRows:
        back = self._batch.reentry
        return replace(given, frame=filter_rows(given.frame, step, None if back is None else back.topic))

    def _made_of(self, step: Step | Fork, given: PlanRows, frame: object) -> PlanRows:
        """What a step has made of the rows that it was given."""
        if not isinstance(frame, DataFrame):
            raise BadFlow(f"step {step.name!r} returns a DataFrame, not {type(frame).__name__}")
        before, after = identities(given.frame), identities(frame)
        if after.get(RECORD) != before[RECORD]:
            raise BadFlow(
                f"step {step.name!r} loses the column {RECORD}, by which every row is known; add it: "
                f'.select(…, "{RECORD}")'
            )
        kept = frozenset(name for name in given.kept if after.get(name) == before.get(name))
        nodes = operations(frame)
        said = step.deterministic
        self.is_deterministic &= is_deterministic(given.frame, frame) if said is None else said
        if not nodes <= ROW_BY_ROW:
            self._read_once(given)
            self._shuffles = True
            frame = group_inputs(frame, self._buckets)
        if count_of(UNION, frame) > count_of(UNION, given.frame):
            # It passes the columns of its first part off as those of all parts.
            kept = frozenset()
        return PlanRows(frame, None, kept, given.fields, given.only)

    def _call(self, each: Each) -> StepCall:
        """One for each step, also where several outputs have it on their way."""
        batch = self._batch
        return self._calls.setdefault(
            id(each),
            StepCall(
                each.name,
                each.function,
                each.timeout_s,
                each.wants_record,
                each.takes,
                batch.topic_ids,
                DeliveryIds(batch.flow, batch.stage, ""),
                batch.reentry,
                batch.hash,
                each.outputs,
            ),
        )

    def _segment(
        self,
        after: str,
        begin: SegmentBegin,
        calls: tuple[StepCall, ...],
        end: SegmentEnd,
    ) -> Segment:
        name = f"segment{len(self.chain)}"
        self.chain.append((name, after))
        return Segment(name, begin, calls, end, self._batch)


def load_decided(spark: SparkSession, stage: Stage, batch: BatchContext, decision: Path) -> None:
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
            place = BatchContext("", stage.name, "", directory, "", settings)
            plan = Plan(stage, place, {}, settings.flow.max_record_bytes)
            plan.job(records)
            return plan.is_deterministic
    except TowpathError:
        raise
    except Exception as error:
        raise BadFlow(f"stage {stage.name!r}: {str(error).partition(chr(10))[0]}") from error


@dataclass(frozen=True, slots=True)
class OutputPath:
    """From a root through each steps; a name between them is the output of the one before it that is taken."""

    root: Node
    hops: tuple[Each | str, ...] = ()

    @property
    def calls(self) -> list[Each]:
        return [hop for hop in self.hops if isinstance(hop, Each)]


Ways: TypeAlias = Sequence[Sequence[OutputPath]]  # of each output


def ways_to(node: Node) -> list[OutputPath]:
    """The ways by which rows come to a node, as far as they lead through Python."""
    match node:
        case AnyOf():
            return [way for above in node.inputs for way in ways_to(above)]
        case Each():
            return [OutputPath(way.root, (*way.hops, node)) for way in ways_to(node.inputs[0])]
        case Branch(fork=Each()):
            return [OutputPath(way.root, (*way.hops, node.output)) for way in ways_to(node.fork)]
    return [OutputPath(node)]


def shared_calls(ways: Sequence[OutputPath]) -> list[Each]:
    """The each steps with which all ways begin: they are called once for all outputs."""
    shared: list[Each] = []
    for hops in zip(*(way.hops for way in ways), strict=False):
        first = hops[0]
        if isinstance(first, str) or any(hop is not first for hop in hops):
            break
        shared.append(first)
    return shared


def passes_all(node: Node, outputs: Sequence[Output]) -> bool:
    """Whether nothing comes to an output that has not come by this node."""

    def avoids(at: Node) -> bool:
        if at is node:
            return False
        return isinstance(at, Source) or any(map(avoids, at.inputs))

    return not any(avoids(output.input) for output in outputs)


def loads_of(
    outputs: Sequence[Output],
    ways: Ways,
    shared: int,
    roots: Sequence[Node],
    rows: Sequence[PlanRows],
    call: Callable[[Each], StepCall],
) -> tuple[OutputLoad, ...]:
    """The loads; the first `shared` calls are made for all of them together."""
    places = {id(root): at for at, root in enumerate(roots)}
    is_one = len(roots) == 1

    def made(way: OutputPath) -> CallPath:
        at = places[id(way.root)]
        hops = tuple(hop if isinstance(hop, str) else call(hop) for hop in way.hops[shared:])
        return CallPath(None if is_one else at, hops, _edits(way.root, rows[at], is_one))

    def load(output: Output, own: Sequence[OutputPath]) -> OutputLoad:
        found = tuple(map(made, own))
        if is_one and len(own) == 1 and all(isinstance(hop, Each) for hop in own[0].hops):
            return OutputLoad(output.name, output.sink, tuple(map(call, own[0].calls[shared:])), found[0].columns)
        return OutputLoad(output.name, output.sink, (), found[0].columns, found)

    return tuple(load(output, own) for output, own in zip(outputs, ways, strict=True))


def _edits(root: Node, rows: PlanRows, is_one: bool) -> Columns:
    # As one of several branches, the documents of a source are those of the records, whatever columns it has.
    return rows.edits() if is_one or not isinstance(root, Source) else Columns(only=rows.only)


def needed(root: Node, rows: PlanRows, outputs: Sequence[Output], ways: Ways) -> tuple[str, ...]:
    """The columns that are needed as Python values: all for functions, else what was changed or makes names."""
    names = rows.columns
    own = [(output, way) for output, each in zip(outputs, ways, strict=True) for way in each if way.root is root]
    for first in (way.calls[0] for _, way in own if way.calls):
        check_types(rows.frame, first)
    if any(way.calls for _, way in own):
        return names
    asked = {field for output, _ in own for field in template_fields(output)}
    if missing := sorted(asked - set(names)):
        raise BadFlow(
            f"an output names field {missing[0]!r}, which is no column of what it loads; it has {', '.join(names)}"
        )
    changed = rows.edits().changed
    return tuple(name for name in names if name in changed or name in asked)


def template_fields(output: Output) -> list[str]:
    templates = (output.sink.target, output.sink.id, output.sink.routing)
    return [field for template in templates if template is not None for field in template.fields]
