"""A console with something on every page: real rows of every kind, made through the parts that make them in earnest.

What people or other programs can write is followed by `hostile`, wherever it may have any letters.
"""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.support import flow_world
from tests.support.actors import Asker, Count, Counter, Do, Doer, Nap, Parent, Sleeper
from tests.support.desk_world import COLUMNS, FLOW, HEADERS, SOURCE, World
from tests.support.flow_world import FlowWorld
from tests.support.leases import LONG_LEASE
from tests.support.taught import NO_CITY, city_rule, teach, without_city

import towpath
from towpath.actors import Interval
from towpath.actors.instance import Phase
from towpath.blocks.rule import BlockAction, BlockMatch
from towpath.catalog.complaints.store import NewComplaint
from towpath.catalog.data_sets.directory import make_directory, place_of
from towpath.desk.actions.actions import JobKind
from towpath.desk.cases.model import CaseSelection, CaseState
from towpath.desk.groups.model import Archive
from towpath.desk.replay.outbox import ReplayContext
from towpath.desk.replay.relay import Relay
from towpath.flow.failures import ErrorCode, RecordFailure
from towpath.flow.stage import StageState
from towpath.gateway.uploads.model import SenderRequest
from towpath.log import NewRecord
from towpath.notify.model import Notice, NoticeKind
from towpath.policy import Rule, isolate, repeat
from towpath.queue import MessageState
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until

INBOX, TRIPS, OFFERS = "greeter", "trips", "offers"
FAR = date(2999, 12, 31)


def console_runtime(home: Path, **sections: Any) -> Runtime:
    """On an empty database in a directory, with a log beside it."""
    return towpath.connect(
        **{
            "database": {"url": f"sqlite:///{home}/towpath.db", "synchronous": "normal"},
            "log": {"url": "embedded"},
            "process": LONG_LEASE,
            "queue": {"poll_s": 0.5, "caretaker_s": 0.1},
            "desk": {"directory": str(home / "desk")},
            "flow": {"directory": str(home / "flows")},
            "complaints": {"public": True},
            "actors": {"modules": ["tests.support.actors"]},
            "gateway": {"directory": str(home / "uploads"), "streams": {TRIPS: {"results": ["fastest"]}}},
            **sections,
        }
    )


class ConsoleWorld:
    """Everything that a console shows."""

    def __init__(self, runtime: Runtime, home: Path, hostile: str = "") -> None:
        self.runtime = runtime
        self.home = home
        self.hostile = hostile
        self.by: dict[str, Any] = {"who": self.say("ann"), "why": self.say("a good reason")}
        self.desk = World(runtime, shape=self._shape())

    def say(self, text: str) -> str:
        return text + self.hostile

    def fill(self) -> ConsoleWorld:
        for part in (
            self.queue,
            self.cases,
            self.groups,
            self.corrections,
            self.policies,
            self.flow,
            self.actors,
            self.data_sets,
            self.uploads,
            self.complaints,
            self.blocks,
            self.access,
        ):
            part()
        return self

    def _shape(self) -> dict[str, Any]:
        shape = flow_world.topology(SOURCE)
        shape["steps"][0] |= {"columns": COLUMNS, "rules": None, "join": None, "extra": "keep"}
        return shape

    # The queue

    def queue(self) -> None:
        inbox = self.runtime.queue.inbox(INBOX)
        operator = self.runtime.queue.operator(self.say("ann"))
        payload = {self.say("name"): self.say("Ada"), "sum": 1.5}
        for reply in (True, False, False, False, False):
            operator.send(
                INBOX,
                self.say("greet"),
                payload,
                self.by["why"],
                headers={self.say("h"): self.say("v")},
                reply=reply,
            )
        asked, failed, _, dead = inbox.claim(4)
        inbox.finish(asked, payload)
        inbox.fail(failed, self.say("nobody is at home"))
        operator.set_state(dead.id, MessageState.DEAD, self.by["why"])

    # The desk

    def cases(self) -> None:
        text = self.say("no price for 17")
        broken = RecordFailure(ErrorCode.TRANSFORM_FAILED, self.say("price"), self.say("KeyError"), text)
        value = json.dumps({"id": 1, "city": self.say("Bonn"), self.say("field"): self.say("x")}).encode()
        headers = (*HEADERS, (self.say("trace"), self.say("t-1").encode()))
        found = self.desk.cases(3, failure=broken, values=[value] * 3, headers=headers, key=self.say("k").encode())
        self.desk.case(state=CaseState.IGNORED, failure=broken)
        self.desk.case(b"\xff\x00<b>" + self.hostile.encode(), failure=broken)
        desk = self.runtime.desk
        desk.operate.assign([found[0].id], self.say("bob"), **self.by)
        desk.operate.note(found[0].id, self.say("I look at it"), who=self.by["who"])
        desk.operate.replay([found[1].id], **self.by, delay_s=3600)
        desk.jobs.plan(JobKind.REPLAY, CaseSelection(flow=FLOW), **self.by, name=self.say("last night"))
        desk.operate.abandon([found[2].id], **self.by)
        sending_parts = ReplayContext(
            self.runtime.settings,
            self.runtime.database,
            self.runtime.events,
            self.runtime.event_log,
            log=self.runtime.log,
            process=self.runtime.process,
            blob=lambda name: b"",
        )
        Relay(sending_parts).run_once()

    def groups(self) -> None:
        desk = self.runtime.desk
        [first, *_] = desk.groups.page(limit=1)
        desk.groups.assign(first.id, self.say("bob"), **self.by)
        desk.groups.note(first.id, self.say("known since Monday"), who=self.by["who"])
        other = self.desk.case(
            failure=RecordFailure(ErrorCode.NOT_VALID, self.say("check"), "Other", self.say("too small"))
        )
        self.runtime.rehearsals.ask(first.id, **self.by, name=self.say("will it work"))
        desk.groups.archive(other.group_id, Archive(more=100), **self.by)
        with self.runtime.database.transaction() as tx:
            data = {"flow": FLOW, "group": first.id, "title": self.say("no price")}
            told = Notice(NoticeKind.GROUP_FOUND, f"{FLOW}/{first.id}", self.say("a group is new: no price"), data)
            self.runtime.notify.notices.tell(tx, told)

    def corrections(self) -> None:
        rule = city_rule(teach(self.runtime))
        case = self.desk.case(without_city(1), failure=NO_CITY)
        self.runtime.corrections.turn_on(rule.id, **self.by)
        self.runtime.desk.operate.correct([case.id], **self.by, replays=False)

    def policies(self) -> None:
        rules = [Rule.of(repeat(3), step=self.say("price")), Rule.of(isolate)]
        self.runtime.policies.set(FLOW, rules, **self.by)

    # Flows

    def flow(self) -> None:
        world = FlowWorld(self.runtime, "prices", OFFERS)
        value = json.dumps({self.say("offer"): self.say("new")}).encode()
        self.runtime.log.append(OFFERS, [NewRecord(value, self.say("k").encode())] * 30)
        world.batch()
        world.batch()
        world.sample()
        world.move(StageState.RETRY, last_error=world.trouble(self.say("no answer")))

    # Actors

    def actors(self) -> None:
        actors = self.runtime.actors
        actors.register(Counter, Sleeper, Doer, Asker, Parent)
        host = actors.host()
        host.start()
        try:
            Doer.actions["explode"] = self._explode
            actors.start(Counter, Count(3))
            actors.start(Doer, Do("explode"))
            actors.start(Sleeper, Nap(3600), instance="long")
            wait_until(lambda: actors.instance("doer").phase is Phase.FAILED, timeout_s=30)
            wait_until(lambda: actors.instance("sleeper", "long").phase is Phase.SLEEPING, timeout_s=30)
            wait_until(lambda: not actors.instance("counter").is_live, timeout_s=30)
        finally:
            host.stop()
        actors.schedules.add("hourly", Counter, Interval(3600), state=Count(2), **self.by)

    def _explode(self, turn: object) -> None:
        raise ValueError(self.say("no such page"))

    # What was made and sent

    def data_sets(self) -> None:
        id = str(uuid4())
        place = place_of(self.home / id)
        sets = self.runtime.data_sets
        sets.begin(id, kind="crawl", subject=self.say("a.test"), origin=self.say("run 1"), place=place)
        (make_directory(place, id) / "part").write_bytes(b"12345")
        sets.finish(id, records=1_234, bytes=5_000, facts={self.say("not_modified"): self.say("7")})
        sets.begin(str(uuid4()), kind="documents", place=place_of(self.home / "documents"), parents=[id])

    def uploads(self) -> None:
        sender = SenderRequest("lab", TRIPS, "jsonl")
        self.runtime.gateway.open(TRIPS, [sender], owner=self.say("ada"), label=self.say("monday"))

    # Tools

    def complaints(self) -> None:
        for _ in range(2):
            made = self.runtime.complaints.make(
                NewComplaint("views", self.say("doc-7"), self.say("wrong price"), self.say("ann@example.org"))
            )
        self.runtime.complaints.dismiss(made.number, reply=self.say("it is right"), **self.by)

    def blocks(self) -> None:
        blocks = self.runtime.blocks
        for _ in range(2):
            made = blocks.add(
                BlockAction.IGNORE, BlockMatch.of(topic=SOURCE, key=self.say("bot")), until=FAR, **self.by
            )
        blocks.withdraw(made.rule.number, **self.by)

    def access(self) -> None:
        access = self.runtime.access
        access.add_user("carol", "operator", **self.by)
        access.make_key("carol", ["read"], **self.by, label=self.say("cron"))
        access.sessions.save_view("admin", self.say("mine"), "/queue/messages?state=ERR")
