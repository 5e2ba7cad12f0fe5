"""Calling back what was sent into a flow and not read there: safe against relays, batches and crashes in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.sent import STAGE, Sent

from towpath.desk.actions.service import ActionResult
from towpath.desk.cases.model import CaseState
from towpath.desk.replay.recall import KEPT, READ, TO_SOURCE, ReplayRecall
from towpath.desk.replay.relay import FlowRelay
from towpath.errors import BadValue, IllegalCaseMove
from towpath.flow.delivery.ledger import Ledger
from towpath.flow.delivery.positions import OffsetRange, Positions
from towpath.flow.records.reentry import TICKET, CancelledReplays, said_by, sent_as
from towpath.flow.stage.store import StageStore, claim_stage
from towpath.flow.topics import FlowTopics

BY: dict[str, Any] = {"who": "ann", "why": "the flow is gone"}
OWNER = "a process"


class Reader:
    """The stage that reads the re-entry topic, as far as the ledger knows."""

    def __init__(self, sent: Sent, topology: Any = None) -> None:
        self.sent = sent
        self.database = sent.runtime.database
        self.topic = FlowTopics.of(sent.flow).reentry
        stages = StageStore(self.database)
        with self.database.transaction() as tx:
            stages.ensure(tx, sent.flow, STAGE, topology or {})
        stage = claim_stage(self.database, stages, sent.flow, STAGE, OWNER)
        with self.database.transaction() as tx:
            stages.new_generation(tx, stage, OWNER, checkpoint="c", starting=Positions.of([]), topics={})
        self.ledger = Ledger(self.database, OWNER)
        self.batch = 0
        self.stops: dict[int, int] = {}

    def begin(self) -> list[tuple[str, int]]:
        """A batch is fixed that covers all there is; returns what of it is to be taken."""
        log = self.sent.runtime.log
        id, ends = log.topic(self.topic).id, log.ends(self.topic)
        ranges = [OffsetRange(self.topic, id, n, self.stops.get(n, 0), end) for n, end in ends.items()]
        with self.database.transaction() as tx:
            hash = f"{self.batch:064}"
            self.ledger.snapshot(tx, self.sent.flow, STAGE, 1, self.batch, hash, Positions.of(ranges))
        with self.database.read() as tx:
            recalled = CancelledReplays(self.database).of(tx, self.sent.flow)
        found = [
            sent_as(said_by(record.headers))
            for each in ranges
            for record in log.read(self.topic, each.partition, each.start, each.stop)
        ]
        self.stops = ends
        return [each for each in found if each is not None and each not in recalled]

    def commit(self) -> None:
        with self.database.transaction() as tx:
            self.ledger.commit(tx, self.sent.flow, STAGE, 1, self.batch, counts={}, digests={}, timings={}, units=None)
        self.batch += 1

    def reset(self) -> None:
        """What was fixed and not committed never will be."""
        with self.database.transaction() as tx:
            self.ledger.supersede_open(tx, self.sent.flow, STAGE)


def recall(sent: Sent, *ids: str) -> ActionResult:
    return sent.runtime.desk.operate.recall(ids, **BY)


def out(sent: Sent, count: int = 1) -> list[str]:
    """Cases whose records lie in the re-entry topic."""
    ids = sent.make(count)
    sent.replay(ids)
    sent.run_relay()
    return ids


def test_records_say_under_which_ticket_they_were_sent(sent: Sent) -> None:
    at_once, later = sent.make(2)
    sent.replay([at_once])
    sent.replay([later], 60)
    sent.run_relay()
    sent.shift(61)
    sent.run_replayer()
    said = [said_by(record.headers) for record in sent.in_reentry()]
    assert {sent_as(each) for each in said} == {(id, sent.read(id).ticket) for id in (at_once, later)}
    assert all(list(each).count(TICKET) == 1 for each in said)


def test_what_a_stopped_flow_has_not_read_is_called_back_and_never_taken(sent: Sent) -> None:
    reader = Reader(sent)
    stays, goes = out(sent, 2)
    assert recall(sent, goes).refused == {}
    case = sent.read(goes)
    assert (case.state, case.attempts, case.give_backs) == (CaseState.OPEN, 1, 1)
    assert case.ticket == 2
    assert reader.begin() == [(stays, 1)]
    reader.commit()
    sent.replay([goes])
    sent.run_relay()
    assert reader.begin() == [(goes, 3)]  # the new one counts, though it is the same attempt


def test_from_a_lane_too(sent: Sent) -> None:
    [case] = sent.make(1)
    sent.replay([case], 60)
    sent.run_relay()
    sent.shift(61)
    sent.run_replayer()
    assert sent.read(case).state is CaseState.REPLAYING
    recall(sent, case)
    assert Reader(sent).begin() == []
    assert sent.states() == {"open": 1}


def test_what_was_not_sent_yet_is_not_sent(sent: Sent) -> None:
    [case] = sent.make(1)
    sent.replay([case])
    recall(sent, case)
    sent.run_relay()
    assert sent.in_reentry() == []
    assert (sent.states(), sent.outbox()) == ({"open": 1}, 0)


def test_what_a_batch_covers_is_not_called_back(sent: Sent) -> None:
    """Whether the batch is committed, open, or was given up: it may have loaded the record."""
    reader = Reader(sent)
    [first] = out(sent)
    reader.begin()
    with pytest.raises(BadValue, match=READ):
        recall(sent, first)
    reader.commit()
    with pytest.raises(BadValue, match=READ):
        recall(sent, first)
    [second] = out(sent)
    reader.begin()
    reader.reset()
    done = recall(sent, first, second)
    assert done.refused == {first: READ, second: READ}
    assert sent.states() == {"replaying": 2}


def test_a_batch_that_begins_between_look_and_act(sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(sent)
    [case] = out(sent)
    taken: list[tuple[str, int]] = []
    look = ReplayRecall.look

    def looked(recalling: ReplayRecall, ids: Any) -> Any:
        found = look(recalling, ids)
        taken.extend(reader.begin())
        return found

    monkeypatch.setattr(ReplayRecall, "look", looked)
    with pytest.raises(BadValue, match="faster"):
        recall(sent, case)
    assert taken == [(case, 1)]
    assert sent.read(case).state is CaseState.REPLAYING


def test_a_relay_that_appends_between_look_and_act(sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row was there and not sent; the record is in the topic when the case is called back, and is passed over."""
    reader = Reader(sent)
    [case] = sent.make(1)
    sent.replay([case])
    look = ReplayRecall.look

    def looked(recalling: ReplayRecall, ids: Any) -> Any:
        found = look(recalling, ids)
        sent.run_relay()
        return found

    monkeypatch.setattr(ReplayRecall, "look", looked)
    recall(sent, case)
    assert sent.came_back() == [(case, 2)]
    assert reader.begin() == []
    assert sent.states() == {"open": 1}


def test_a_relay_that_appends_and_a_batch_that_reads_it_between(sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(sent)
    [case] = sent.make(1)
    sent.replay([case])
    look = ReplayRecall.look

    def looked(recalling: ReplayRecall, ids: Any) -> Any:
        found = look(recalling, ids)
        sent.run_relay()
        assert reader.begin() == [(case, 1)]
        return found

    monkeypatch.setattr(ReplayRecall, "look", looked)
    with pytest.raises(BadValue, match="faster"):
        recall(sent, case)
    assert sent.states() == {"replaying": 1}


def test_a_relay_that_has_died_before_it_cleared_the_outbox(sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row says that it is to be sent, and the flow has read it long since."""
    reader = Reader(sent)
    [case] = sent.make(1)
    sent.replay([case])

    def died(relay: FlowRelay, upto: int) -> None:
        raise ConnectionError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(FlowRelay, "_delete", died)
        with pytest.raises(ConnectionError):
            sent.relay.run_once()
    sent.settle()
    assert sent.outbox() == 1
    assert reader.begin() == [(case, 1)]
    with pytest.raises(BadValue, match=READ):
        recall(sent, case)


def test_what_is_refused_and_why(sent: Sent, make_sent: Callable[..., Sent]) -> None:
    resent, resolved = sent.make(2)
    sent.resend([resent])
    with pytest.raises(BadValue, match=TO_SOURCE):
        recall(sent, resent)
    out(sent)
    sent.replay([resolved])
    with sent.runtime.database.transaction() as tx:
        sent.cases.move(tx, [resolved], CaseState.RESOLVED, who="towpath", why="loaded")
    with pytest.raises(IllegalCaseMove):
        recall(sent, resolved)


def test_a_stage_with_state_gets_what_was_sent(sent: Sent) -> None:
    Reader(sent, {"steps": [{"name": "orders", "dedupe": "by id"}]})
    [case] = out(sent)
    with pytest.raises(BadValue, match=KEPT):
        recall(sent, case)


def test_of_a_flow_that_nobody_knows_any_more(sent: Sent) -> None:
    """There is no stage; should one come, it passes over the record."""
    [case] = out(sent)
    recall(sent, case)
    assert Reader(sent).begin() == []


def test_many_at_once_with_what_waits(sent: Sent) -> None:
    reader = Reader(sent)
    lying, waiting = out(sent, 40), sent.make(10)
    sent.replay(waiting, 60)
    assert len(recall(sent, *lying, *waiting).done) == 50
    assert sent.states() == {"open": 50}
    assert reader.begin() == []
