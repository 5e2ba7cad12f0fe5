"""Puts the audit together: reads ledger, log and sinks, and hands what it has read to the checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from towpath.db import Database
from towpath.flow.audit.balance import Balancing
from towpath.flow.audit.batch_row import StageRows
from towpath.flow.audit.chain import check_chain
from towpath.flow.audit.counting import Counter, Progress, in_flight
from towpath.flow.audit.deep import OutputCheck, take_ids
from towpath.flow.audit.error_topic import read_errors
from towpath.flow.audit.errors import ErrorsFound, check_errors
from towpath.flow.audit.expected import ExpectedIds
from towpath.flow.audit.problem import Problem, Unproven
from towpath.flow.audit.readers import Reach, SinkReader, Unreadable, Versioned
from towpath.flow.audit.returned import returned_to
from towpath.flow.audit.segments import segments_of
from towpath.flow.audit.settling import Settling
from towpath.flow.audit.verdict import OutputVerdict, Proof, Verdict
from towpath.flow.audit.versions import VersionCheck
from towpath.flow.audit.view import TopicState, take_view, topic_state
from towpath.flow.delivery import DeliveryIds
from towpath.flow.flow import Flow
from towpath.flow.nodes import Output
from towpath.flow.place import Places
from towpath.flow.positions import Range
from towpath.flow.sinks.index import INPUT, IndexSink
from towpath.flow.sinks.index_reader import Found, IndexReader
from towpath.flow.topics import FlowTopics
from towpath.log.log import Log

Telling = Callable[[str], Progress]  # given what is being read, where to tell how far it has come
OWN_IDS = "its ids are the flow's own: which ones there should be, only its steps could say"
BLIND = "what was a duplicate nobody can say: records are deleted since, or senders are forgotten after a time"
NEWEST_OF_ID = "every record's id is there; the newest record of an id takes the place of the older ones"


def _quiet(what: str) -> Progress:
    return lambda done: None


@dataclass(slots=True)
class Audit:
    """One audit of one flow. With `deep`, the flow as its file has it, also of what its sinks hold."""

    database: Database
    log: Log
    flow: str
    deep: Flow | None = None
    error_topic: str | None = None
    places: Places | None = None
    telling: Telling = _quiet
    _problems: list[Problem] = field(default_factory=list)
    _unproven: list[Unproven] = field(default_factory=list)

    def run(self) -> Verdict:
        name = self.error_topic or (self.deep.error_topic if self.deep is not None else None)
        view = take_view(self.database, self.log, self.flow, FlowTopics.of(self.flow, name).errors, self.places)
        for stage in view.stages:
            self._take(check_chain(stage))
        errors = read_errors(self.log, view, self.telling("errors read"))
        self._take(check_errors(errors))
        balancing = Balancing(view, Counter(self.log, self.telling("counted")).count(view), errors)
        self._take(balancing.run())
        if self.places is not None and view.holdings is not None:
            self._take(Settling(self.log, view, errors, self.places, view.holdings).run(balancing.balance))
        outputs = [verdict for stage in view.stages for verdict in self._outputs(stage, errors)]
        told = {
            "repeats": errors.repeats,
            "of_open_batches": errors.uncommitted,
            "of_later_batches": errors.later,
        }
        batches = sum(1 for stage in view.stages for _ in stage.committed)
        return Verdict(self.flow, batches, balancing.balance, outputs, self._problems, self._unproven, told)

    def _take(self, found: Iterable[Problem | Unproven]) -> None:
        for each in found:
            if isinstance(each, Problem):
                self._problems.append(each)
            else:
                self._unproven.append(each)

    # Outputs

    def _outputs(self, stage: StageRows, errors: ErrorsFound) -> list[OutputVerdict]:
        names = sorted({name for batch in stage.committed for name in _delivered_to(batch.counts, batch.digests)})
        declared = {output.name: output for output in self.deep.outputs} if self.deep is not None else {}
        return [self._output(stage, name, declared.get(name), errors) for name in names]

    def _output(self, stage: StageRows, name: str, output: Output | None, errors: ErrorsFound) -> OutputVerdict:
        delivered = sum(batch.delivered(name) for batch in stage.committed)
        if self.deep is None:
            return OutputVerdict(stage.name, name, delivered)
        if output is None:
            why = "the flow file has no output of this name"
            return OutputVerdict(stage.name, name, delivered, Proof.NOT_PROVABLE, why=why)
        from towpath.flow.audit.sink_readers import open_reader  # sinks need their own packages

        ids = DeliveryIds(stage.flow, stage.name, name)
        reader = open_reader(output.sink, self.log, stage.topics, ids, self.deep.delivery)
        if isinstance(reader, Unreadable):
            return OutputVerdict(stage.name, name, delivered, Proof.NOT_PROVABLE, why=reader.why)
        try:
            if isinstance(reader, IndexReader):
                return self._by_versions(stage, output, delivered, reader, errors)
            return self._by_ids(stage, name, delivered, reader, errors)
        finally:
            reader.close()

    def _by_ids(
        self, stage: StageRows, name: str, delivered: int, reader: SinkReader, errors: ErrorsFound
    ) -> OutputVerdict:
        found = take_ids(reader, self.telling(f"read back from {name}"))
        segments = segments_of(list(stage.batches), self._beyond(stage), returned_to(self.log, stage))
        check = OutputCheck(stage, name, segments, reader, errors)
        before = len(self._problems)
        self._take(check.run(found))
        proof, why = (Proof.PARTLY, reader.why_part) if reader.reach is Reach.PART else (Proof.PROVEN, "")
        proof = Proof.WRONG if len(self._problems) > before else proof
        return OutputVerdict(stage.name, name, delivered, proof, check.found, check.matched.repeats, why)

    def _by_versions(
        self, stage: StageRows, output: Output, delivered: int, reader: IndexReader, errors: ErrorsFound
    ) -> OutputVerdict:
        from towpath.flow.audit.sink_readers import starred

        sink, before = output.sink, len(self._problems)
        expected = ExpectedIds.of(stage, output)
        if expected is not None:
            expected.read(self.log, errors, self.telling(f"expected in {output.name}"))
        reader.refresh(starred(sink.target))
        by_input = isinstance(sink, IndexSink) and sink.version == INPUT
        check = VersionCheck(stage, output.name, self._beyond(stage), by_input)
        self._take(check.run(_seen(reader.scan(starred(sink.target)), expected)))
        self._take(expected.problems() if expected is not None else ())
        proof = Proof.WRONG if len(self._problems) > before else Proof.PARTLY
        why = OWN_IDS if expected is None else BLIND if expected.is_blind else NEWEST_OF_ID
        return OutputVerdict(stage.name, output.name, delivered, proof, check.found, why=why)

    def _beyond(self, stage: StageRows) -> list[Range]:
        """What was delivered since the view was taken comes from records that are in the topics by now."""
        topics: dict[str, TopicState] = {name: topic_state(self.log, name) for name in stage.topics}
        return in_flight(stage, topics)


def _seen(documents: Iterable[Found], expected: ExpectedIds | None) -> Iterator[Versioned]:
    """The documents, each told to whoever expects some."""
    for one in documents:
        if expected is not None:
            expected.see(one.id, one.version)
        yield Versioned(one.version, f"{one.id} of {one.target}")


def _delivered_to(*parts: object) -> set[str]:
    """The outputs that a row tells of."""
    found: set[str] = set()
    counts, digests = parts
    if isinstance(counts, dict) and isinstance(counts.get("delivered"), dict):
        found.update(counts["delivered"])
    if isinstance(digests, dict):
        found.update(digests)
    return found
