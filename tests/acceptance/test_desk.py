"""The whole pattern, from the first error to the last case: on the embedded default, and on Kafka with PostgreSQL.

One flow, one desk. After every step the audit has to balance: each record that arrived is in exactly one place.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from tests.support.leases import LONG_LEASE

import towpath
from towpath import Flow, files, topic
from towpath.desk.actions.actions import JobKind
from towpath.desk.actions.job_store import JobState
from towpath.desk.cases.model import LIVE, Case, CaseSelection, CaseState
from towpath.desk.corrections.model import RuleKind
from towpath.desk.corrections.service import CorrectionService
from towpath.desk.record_queries import DeskPlaceSource
from towpath.desk.rehearsal import Rehearsal, RehearsalVerdict
from towpath.flow.audit.audit import Audit
from towpath.log import NewRecord
from towpath.policy import correct, exponential, ignore, linear, repeat, repeat_after, salvage
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(1800)  # some twenty runs of a flow

NAME, SOURCE = "walk", "orders"
MANY = 10_000
SCHEMA = "id bigint not null, kind string not null, city string not null, postcode string not null, phone string"
CITIES = {"10115": "Berlin", "80331": "München", "20095": "Hamburg", "01067": "Dresden"}
BY: dict[str, Any] = {"who": "ada", "why": "as agreed"}


def made_flow(mood: str, results: str, *, knows_shells: bool = False) -> Flow:
    """What is away, and comes back when a file says so; what is wrong, and right in a later version."""
    flow = Flow(NAME, version="2" if knows_shells else "1")

    @flow.each(topic(SOURCE), schema=SCHEMA)
    def handled(order: dict[str, Any]) -> dict[str, Any]:
        kind = order["kind"]
        if kind in ("again", "linear", "exponential", "never") and not Path(mood, kind).exists():
            raise TimeoutError(f"{kind} is away")
        if kind == "noise":
            raise RuntimeError("noise")
        if kind == "phone" and "phone" in order:
            raise ValueError("no such phone")
        if kind == "slip" and order["city"] != "Bonn":
            raise LookupError(f"no city {order['city']}")
        if kind == "useless":
            raise LookupError("nobody knows what this is")
        if kind == "shells" and not knows_shells:
            raise KeyError("shells")
        return order

    flow.load(handled, files(results))
    flow.on_error(ignore(approved_by="Ann Lee", until="2099-01-31"), exception="RuntimeError")
    flow.on_error(repeat(2), where="value.kind = 'again'")
    flow.on_error(repeat_after(linear("5m", times=2)), where="value.kind = 'linear'")
    flow.on_error(repeat_after(exponential("1m", factor=2, times=2)), where="value.kind in ('exponential', 'never')")
    flow.on_error(salvage("phone"), exception="ValueError")
    flow.on_error(correct(), code=8)
    return flow


class Walk:
    """A flow and a desk that run in turn, on a clock that the test moves."""

    def __init__(self, spark: SparkSession, home: Path, sections: dict[str, Any]) -> None:
        self.runtime: Runtime = towpath.connect(
            **sections,
            process=LONG_LEASE,
            flow={"directory": str(home / "flows"), "trigger_s": 0.1, "judge_sample": 1_000_000},
            desk={"directory": str(home / "desk")},
            spark={"master": "local[2]"},
        )
        self.runtime.spark = lambda name="towpath": spark  # type: ignore[method-assign]
        self.desk = self.runtime.desk
        self.home = home
        self.mood = home / "mood"
        self.mood.mkdir()
        self.flow = made_flow(str(self.mood), str(home / "results"))
        self.sent: Counter[str] = Counter()
        self.runtime.log.create_topic(SOURCE, 2)

    def send(self, kind: str, count: int = 1, **fields: Any) -> None:
        """Some records of a kind."""
        postcodes = list(CITIES)
        records = []
        for _ in range(count):
            number = self.sent.total()
            postcode = postcodes[number % len(postcodes)]
            order = {"id": number, "kind": kind, "city": CITIES[postcode], "postcode": postcode, **fields}
            order = {name: value for name, value in order.items() if value is not None}
            records.append(NewRecord(json.dumps(order).encode(), b"%d" % number))
            self.sent[kind] += 1
        self.runtime.log.append(SOURCE, records)

    def turn(self) -> None:
        """The flow reads what there is, and the desk does what is to do now."""
        run = self.runtime.flow(self.flow)
        run.start(until_idle=True)
        run.wait()
        self.serve()

    def serve(self) -> None:
        services = self.runtime.desk_services()
        services.run_until_idle(lambda: False)
        assert services.stop(30) == []
        self.check()

    def later(self, seconds: float) -> None:
        self.runtime.database.shift_clock(seconds)

    def check(self) -> dict[str, int]:
        """The audit balances; where the records are."""
        database = self.runtime.database

        def audited() -> dict[str, Any] | None:
            found = Audit(database, self.runtime.log, NAME, None, None, DeskPlaceSource(database)).run().to_json()
            return found if found["is_balanced"] else None

        found = wait_until(audited, timeout_s=30, what="a balanced audit")
        assert found is not None
        assert found["arrived"] == self.sent.total()
        return {place: count for place, count in found["places"].items() if count}

    def case(self, kind: str) -> Case:
        """The newest case of a kind."""
        return self.desk.cases.page(CaseSelection(body=f'"kind": "{kind}"'), limit=1).cases[0]

    def settled(self, case: Case) -> Case:
        return self.desk.cases.show(case.id).case

    def loaded(self) -> Counter[str]:
        """What the sink has, by kind; each record once."""
        found: dict[int, str] = {}
        for path in (self.home / "results").rglob("*.jsonl"):
            for line in path.read_text(encoding="utf-8").splitlines():
                order = json.loads(line)
                assert order["id"] not in found, "a record was loaded twice"
                found[order["id"]] = order["kind"]
        return Counter(found.values())

    def close(self) -> None:
        self.runtime.close()


@pytest.fixture(params=["embedded", pytest.param("kafka and postgres", marks=pytest.mark.part("guides"))])
def walk(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Iterator[Walk]:
    if request.param == "embedded":
        sections: dict[str, Any] = {"database": {"url": f"sqlite:///{tmp_path}/towpath.db"}}
    else:
        kafka, postgres = request.getfixturevalue("kafka"), request.getfixturevalue("postgres")
        log = {"url": kafka.url, "namespace": f"t{uuid4().hex[:12]}"}
        sections = {"database": {"url": postgres.url, "schema": f"t{uuid4().hex[:16]}"}, "log": log}
    made = Walk(spark, tmp_path, sections)
    yield made
    made.close()


@pytest.mark.part("guides")
def test_from_the_first_error_to_the_last_case(walk: Walk) -> None:
    policies(walk)
    by_hand(walk)
    many_at_once(walk)
    after_a_fix(walk)
    learned(walk)
    in_the_end(walk)


def policies(walk: Walk) -> None:
    """Each policy, lanes by the clock, and what is exhausted comes to the desk."""
    walk.send("good", 400)
    for kind in ("again", "linear", "exponential", "never", "useless"):
        walk.send(kind)
    walk.send("slip", city="Bon")
    walk.send("noise", 3)
    walk.send("phone", phone="0190")
    walk.turn()
    states = {kind: walk.case(kind).state for kind in ("again", "linear", "exponential", "never", "slip", "useless")}
    assert states["linear"] is states["exponential"] is states["never"] is CaseState.WAITING
    assert states["slip"] is states["useless"] is CaseState.OPEN
    assert states["again"] is CaseState.REPLAYING
    assert walk.check()["ignored"] == 3
    (walk.mood / "again").touch()
    walk.turn()  # the second try of what repeats at once, and the record without its phone
    assert walk.loaded()["again"] == walk.loaded()["phone"] == 1
    walk.later(60)
    walk.turn()
    walk.turn()
    assert walk.case("linear").attempts == 1  # its five minutes are not over
    assert walk.case("exponential").attempts == walk.case("never").attempts == 2
    (walk.mood / "exponential").touch()
    walk.later(120)
    walk.turn()
    walk.turn()
    assert walk.loaded()["exponential"] == 1
    never = walk.case("never")
    assert (never.state, never.attempts) == (CaseState.OPEN, 3)  # exhausted: in front of a person
    assert len(walk.desk.cases.show(never.id).attempts) == 3
    walk.later(300)
    walk.turn()
    walk.turn()
    assert walk.case("linear").attempts == 2
    (walk.mood / "linear").touch()
    walk.later(600)
    walk.turn()
    walk.turn()
    assert walk.loaded()["linear"] == 1


def by_hand(walk: Walk) -> None:
    """Edit and replay that loads, a replay that is undone, abandon, and what was ignored taken back."""
    slip = walk.case("slip")
    mended = {**json.loads(walk.desk.cases.body(slip.id) or b""), "city": "Bonn"}
    walk.desk.edits.edit(slip.id, json.dumps(mended).encode(), seen=walk.desk.cases.show(slip.id).seen, **BY)
    walk.desk.operate.replay([slip.id], **BY)
    useless, never, noise = walk.case("useless"), walk.case("never"), walk.case("noise")
    walk.desk.operate.replay([never.id], delay_s=3600, **BY)
    walk.serve()
    walk.desk.operate.recall([never.id], **BY)
    walk.desk.operate.abandon([useless.id, noise.id], **BY)
    walk.later(7200)
    walk.turn()
    walk.turn()
    assert walk.settled(slip).state is CaseState.RESOLVED
    assert walk.settled(never).state is CaseState.OPEN  # what still lies in its lane was passed over
    (walk.mood / "never").touch()
    walk.desk.operate.resend([never.id], **BY)
    walk.sent["never"] += 1  # to the source, where it is a new record
    walk.turn()
    walk.turn()
    places = walk.check()
    assert (places["resent"], places["abandoned"], places["ignored"]) == (1, 2, 2)
    assert walk.settled(never).state is CaseState.RESENT


def many_at_once(walk: Walk) -> None:
    """Ten thousand of one cause are one group, and go back as one job; they fail again, each the same case."""
    walk.send("shells", MANY)
    walk.turn()
    group = walk.case("shells").group_id
    assert walk.desk.groups.show(group).group.cases == {CaseState.OPEN: MANY}
    positions = walk.runtime.log.positions(f"towpath.{NAME}.{SOURCE}")
    job = walk.desk.jobs.plan(JobKind.REPLAY, CaseSelection(group=group), name="again, all of them", begin=True, **BY)
    walk.serve()
    ended = walk.desk.jobs.show(job.id).job
    assert (ended.state, ended.done, ended.refused) == (JobState.FINISHED, MANY, 0)
    assert walk.runtime.log.positions(f"towpath.{NAME}.{SOURCE}") == positions  # the flow's own stay where they were
    assert walk.check()["replaying"] == MANY
    walk.turn()
    assert walk.desk.groups.show(group).group.cases == {CaseState.OPEN: MANY}
    assert walk.case("shells").attempts == 2


def after_a_fix(walk: Walk) -> None:
    """A new version is rehearsed on the group, then all that would pass is replayed."""
    group = walk.case("shells").group_id
    old = walk.flow
    walk.flow = made_flow(str(walk.mood), str(walk.home / "results"), knows_shells=True)
    runtime = walk.runtime
    rehearsal = Rehearsal(runtime.settings, runtime.database, runtime.events, runtime.spark, runtime._blob)
    assert rehearsal.rehearse(group, old, most=100).counts == {RehearsalVerdict.SAME: 100}
    tried = rehearsal.rehearse(group, walk.flow, most=500)
    assert tried.counts == {RehearsalVerdict.LOADS: 500}
    assert walk.loaded()["shells"] == 0
    walk.desk.jobs.plan(JobKind.REPLAY, CaseSelection(group=group), begin=True, **BY)
    walk.serve()
    walk.turn()
    assert walk.loaded()["shells"] == MANY
    assert walk.desk.groups.show(group).group.cases == {CaseState.RESOLVED: MANY}


def learned(walk: Walk) -> None:
    """The postcode decides the city: learned from what has loaded, and done once a person has turned it on."""
    runtime = walk.runtime
    corrections = CorrectionService(
        runtime.database, runtime.events, runtime.event_log, lambda: runtime.log, runtime.spark, runtime._blob
    )
    corrections.learn(NAME)
    [rule] = [
        each
        for each in corrections.rules(NAME)
        if each.field == "city" and each.kind is RuleKind.DECIDED and each.deciders == ("postcode",)
    ]
    corrections.turn_on(rule.id, **BY)
    walk.send("good", 3, city=None)
    walk.turn()
    walk.turn()
    assert [each.state for each in walk.desk.cases.page(CaseSelection(states=tuple(LIVE), code=8)).cases] == []
    assert len(corrections.touched(rule.id)) == 3


def in_the_end(walk: Walk) -> None:
    """Nothing is left on the desk but what a rule ignores, and nothing was loaded twice."""
    assert walk.check() == {
        "loaded": walk.sent.total() - 5,
        "resent": 1,
        "ignored": 2,
        "abandoned": 2,
    }
    assert walk.loaded() == walk.sent - Counter({"useless": 1, "noise": 3, "never": 1})
    live = walk.desk.cases.page(CaseSelection(states=tuple(sorted(LIVE)))).cases
    assert {case.state for case in live} == {CaseState.IGNORED}
