"""A database with everything in it, and a copy of it behind a server: commands here, and the same ones from afar."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.actors import Count, Counter, Nap, Sleeper
from tests.support.console_server import console_server
from tests.support.console_world import INBOX, TRIPS, ConsoleWorld, console_runtime
from tests.support.desk_world import FLOW
from tests.support.http import make_key
from tests.support.receivers import webhook
from tests.support.taught import NO_CITY, without_city

from towpath.actors import Interval
from towpath.actors.instance import Phase
from towpath.desk.actions.actions import JobKind
from towpath.desk.cases.model import CaseSelection, CaseState
from towpath.desk.corrections.model import RuleState
from towpath.flow.failures import ErrorCode, RecordFailure
from towpath.gateway.uploads.model import SenderRequest
from towpath.notify.model import Notice, NoticeKind
from towpath.runtime import Runtime
from towpath.supervision.duties.model import DeathKind, DutySpec, NewDuty
from towpath.supervision.duties.store import DeathStore, NewDeath
from towpath.testing.clock import wait_until

WHO = "admin"  # whose key it is
_OWN = {
    re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"): "an id",
    re.compile(r"towpath-[0-9a-f]{12}"): "a process",
    re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00"): "a time",
    re.compile(r"\b\d{16}\b"): "a time in microseconds",
    re.compile(r"(tp_|/welcome/)\S+"): "a secret",
    re.compile(r"/there/"): "/here/",
}
_USED = ("used_at", "beat_at", "lease_until", "amount", "took_s")  # of the server's own doing


@dataclass
class Twins:
    """`config` is the settings file of the one; `url` and `key` are for the other one. `names` stand in words."""

    config: Path
    url: str
    key: str
    looker: str  # a key for looking only
    names: dict[str, Any] = field(default_factory=dict)


@contextmanager
def twins(home: Path) -> Iterator[Twins]:
    here, there = home / "here", home / "there"
    here.mkdir()
    with webhook() as hook:
        sections = {"notify": {"webhooks": [{"name": "ops", "url": hook.url, "secret": "a secret of the test"}]}}
        with console_runtime(here, **sections) as runtime:
            key, looker = make_key(runtime), make_key(runtime, scopes=["read"])
            names = _filled(runtime, here)
        proposing = {"desk": {"directory": str(here / "desk"), "second_person": True}}
        with console_runtime(here, **sections, **proposing) as runtime:
            _propose(runtime, names)
        shutil.copytree(here, there)
        config = _settings_file(here, hook.url)
        with (
            console_runtime(here, **sections) as beside,
            console_runtime(there, **sections) as runtime,
            console_server(runtime) as server,
        ):
            beside.process(), runtime.process()  # a server has one when it needs it, which is an event
            yield Twins(config, server.address, key, looker, names)


def _settings_file(home: Path, hook: str) -> Path:
    """What `console_runtime` has, for commands."""
    path = home / "towpath.toml"
    path.write_text(
        f"""
        [database]
        url = "sqlite:///{home}/towpath.db"
        synchronous = "normal"
        [log]
        url = "embedded"
        [desk]
        directory = "{home}/desk"
        [flow]
        directory = "{home}/flows"
        [actors]
        modules = ["tests.support.actors"]
        [gateway]
        directory = "{home}/uploads"
        [gateway.streams.{TRIPS}]
        results = ["fastest"]
        [[notify.webhooks]]
        name = "ops"
        url = "{hook}"
        secret = "a secret of the test"
        """,
        encoding="utf-8",
    )
    return path


def _filled(runtime: Runtime, home: Path) -> dict[str, Any]:
    world = ConsoleWorld(runtime, home).fill()
    by = world.by
    operator, names = runtime.queue.operator(WHO), dict[str, Any]()
    for number in range(6):
        names[f"message{number}"] = operator.send(INBOX, "greet", {"n": 1.50}, "a test", reply=number == 0)
    cases = [world.desk.case(b'{"id": %d, "city": "Bonn"}' % number, key=b"key-%d" % number) for number in range(30)]
    names |= {f"case{number}": case.seq for number, case in enumerate(cases)}
    names |= {f"wrong{number}": world.desk.case(without_city(number + 7), failure=NO_CITY).seq for number in range(3)}
    names["ignored"] = world.desk.case(state=CaseState.IGNORED).seq
    for number in range(8):
        failure = RecordFailure(ErrorCode.TRANSFORM_FAILED, f"step {'abcdefgh'[number]}", "KeyError", "no such thing")
        names[f"group{number}"] = world.desk.case(failure=failure).group_id
    for number in range(4):
        chosen = CaseSelection(ids=(cases[number].id,))
        job = runtime.desk.jobs.plan(JobKind.ASSIGN, chosen, **by, arguments={"assignee": "bob"}, begin=number > 0)
        names[f"job{number}"] = job.seq
    runtime.desk.jobs.pause(runtime.desk.jobs.find(str(names["job2"])).id, **by)
    runtime.desk.operate.replay([cases[12].id, cases[13].id], **by, delay_s=3600)
    names["fingerprint"] = runtime.desk.groups.show(cases[0].group_id).fingerprints[0].fingerprint
    names["many"] = cases[0].group_id
    names["rule"] = runtime.corrections.rules(None, RuleState.SUGGESTED)[0].id
    names["on"] = runtime.corrections.rules(None, RuleState.ON)[0].id
    names["data_set"] = next(each.id for each in runtime.data_sets.list(kind="documents"))
    names["upload"] = runtime.gateway.list(owner=None, stream=None, state=None, before=None, limit=1)[0].id
    ended = runtime.gateway.open(TRIPS, [SenderRequest("lab", TRIPS, "jsonl")], owner="ada", label="to be ended")
    names["ended"] = ended.upload.id
    names["key"] = runtime.access.make_key("carol", ["read"], **by)[0].prefix
    for name in ("changed", "switched", "removed"):
        runtime.actors.schedules.add(name, Counter, Interval(3600), state=Count(2), **by)
    _sleepers(runtime)
    _duties(runtime)
    with runtime.database.transaction() as tx:
        runtime.notify.notices.tell(tx, Notice(NoticeKind.GROUP_FOUND, "shop/1", "shop/1 is new", {"flow": FLOW}))
    return names


def _sleepers(runtime: Runtime) -> None:
    host = runtime.actors.host()
    host.start()
    try:
        for name in ("one", "two"):
            runtime.actors.start(Sleeper, Nap(3600), instance=name)
        wait_until(lambda: len(runtime.actors.instances(actor="sleeper", phase=Phase.SLEEPING)) == 3, timeout_s=30)
    finally:
        host.stop()


def _duties(runtime: Runtime) -> None:
    spec = DutySpec(("sleep", "600"))
    runtime.duties.want([NewDuty(name, "command", "moon", spec) for name in ("far", "away")], who=WHO, why="a test")
    how = (DeathKind.EXIT, 3, None, "no luck")
    with runtime.database.transaction() as tx:
        DeathStore(runtime.database).record(tx, NewDeath("far", 1, None, "moon", 7, *how, None, 1, "peer-1"))


def _propose(runtime: Runtime, names: dict[str, Any]) -> None:
    """Edits that another person has to agree to."""
    for number in (20, 21):
        view = runtime.desk.cases.show(runtime.desk.cases.find(str(names[f"case{number}"])).id)
        body = json.dumps({"id": number, "city": "Köln"}).encode()
        runtime.desk.edits.edit(view.case.id, body, seen=view.seen, who="bob", why="a test")


def alike(here: Any, there: Any) -> bool:
    """Whether two answers say the same of two equal databases: what was made just now has times and ids of its own."""
    if isinstance(here, dict) and isinstance(there, dict):
        return here.keys() == there.keys() and all(
            name in _USED or alike(value, there[name]) for name, value in here.items()
        )
    if isinstance(here, list) and isinstance(there, list):
        return len(here) == len(there) and all(map(alike, here, there))
    if isinstance(here, str) and isinstance(there, str):
        return blurred(here) == blurred(there)
    return bool(here == there and type(here) is type(there))


def blurred(text: str) -> str:
    """Without what is of the one database or the other."""
    for pattern, word in _OWN.items():
        text = pattern.sub(word, text)
    return text
