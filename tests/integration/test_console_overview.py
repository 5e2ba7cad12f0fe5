"""The overview: what needs a person is said first, and all that is there has its place on the one screen."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from tests.support.actors import Nap, Sleeper
from tests.support.console import HOSTILE, MakeVisitor, Visitor, has_run
from tests.support.desk_world import World
from tests.support.flow_world import FLOW, TOPIC, FlowWorld
from tests.support.tables import by_hand
from tests.support.uploads import send_upload

from towpath.actors.instance import Phase
from towpath.catalog.complaints.store import NewComplaint
from towpath.desk.groups.model import Archive
from towpath.flow.failures import ErrorCode, RecordFailure
from towpath.flow.stage import StageState
from towpath.gateway.uploads.store import UploadStore
from towpath.queue import MessageState
from towpath.runtime import Runtime
from towpath.supervision.duties.model import DeathKind, DutySpec, NewDuty
from towpath.supervision.duties.store import DeathStore, NewDeath
from towpath.testing.clock import wait_until
from towpath.web.console.overview import Need

BY: dict[str, Any] = {"who": "test", "why": "a test"}


@pytest.fixture
def runtime(make_desk: Callable[..., Runtime], tmp_path: Any) -> Runtime:
    streams = {"trips": {"flow": FLOW}}
    return make_desk(gateway={"directory": str(tmp_path / "uploads"), "streams": streams})


@pytest.fixture
def viewer(make_visitor: MakeVisitor) -> Visitor:
    return make_visitor("viewer")


def needs(page: str) -> list[Need]:
    """What the page says first."""
    found = re.findall(r'<li class="(bad|wait)"><span[^>]*>.</span> <a href="([^"]*)">([^<]*)</a></li>', page)
    return [Need(unescape(text), unescape(href), tone == "bad") for tone, href, text in found]


def section(page: str, title: str) -> str:
    """One part of the page."""
    begin = page.index(f'id="{title}-title"')
    return page[begin : page.index("</section>", begin)]


def test_an_empty_console_says_that_all_is_well(viewer: Visitor) -> None:
    page = viewer.text("/")
    assert needs(page) == []


def test_what_stands_still_comes_first(viewer: Visitor, runtime: Runtime) -> None:
    FlowWorld(runtime, "a-waits", "a").move(StageState.RETRY, next_try=1, resumes=StageState.LOAD)
    FlowWorld(runtime, "b-halted", "b").move(StageState.HALTED, reason="look")
    FlowWorld(runtime, "c-fine", "c").move(StageState.EXTRACT)
    World(runtime, log=False).cases(2)
    found = needs(viewer.text("/"))
    assert [(each.href, each.is_bad) for each in found] == [
        ("/flows/b-halted?stage=b", True),
        ("/flows/a-waits?stage=a", False),
        ("/desk/groups/1", False),
    ]


def test_nobody_runs_a_flow(viewer: Visitor, runtime: Runtime) -> None:
    FlowWorld(runtime).move(StageState.EXTRACT)
    by_hand(runtime.database, "update flow_stage set owner = 'somebody-gone'")
    assert needs(viewer.text("/")) == [Need(f"nobody runs {FLOW}", f"/flows/{FLOW}?stage={TOPIC}", True)]


def test_groups_are_counted_and_the_new_ones_stand_above_the_known(viewer: Visitor, runtime: Runtime) -> None:
    world = World(runtime, log=False)
    for number in "abc":
        world.case(failure=RecordFailure(ErrorCode.NOT_VALID, "check", f"Kind{number}", "too small"))
    known, gone = (group.id for group in runtime.desk.groups.page(limit=2))
    runtime.desk.groups.look(known, **BY)
    runtime.desk.groups.archive(gone, Archive(more=100), **BY)
    for number in "d":
        world.case(failure=RecordFailure(ErrorCode.NOT_VALID, "check", f"Kind{number}", "too small"))
    page = viewer.text("/")
    [need] = needs(page)
    assert need.href == "/desk/groups?state=new"
    assert need.text.startswith("2 ")
    shown = re.findall(r'href="/desk/groups/(\d+)"', section(page, "groups"))
    assert len(shown) == 3
    assert shown[-1] == str(known)
    assert str(gone) not in shown


def test_flows_are_shown_with_state_lag_and_rate(viewer: Visitor, runtime: Runtime) -> None:
    world = FlowWorld(runtime)
    world.send(*[b"{}"] * 25)
    world.batch()
    world.sample()
    world.move(StageState.EXTRACT)
    page = section(viewer.text("/"), "flows")
    for text in (f'href="/flows/{FLOW}?stage={TOPIC}"', ">extract<", ">2.5<", ">15<", ">2<"):
        assert text in page, text


def test_the_balance_is_that_of_the_ledger_and_says_so(viewer: Visitor, runtime: Runtime) -> None:
    world = FlowWorld(runtime)
    world.batch()
    page = section(viewer.text("/"), "balance")
    assert "adds up" in page
    assert "<dt>read</dt><dd>10</dd>" in page
    assert f'href="/flows/{FLOW}/audit"' in page
    world.batch({"read": 10, "loaded": 9, "filtered": {}, "failed": {}})
    assert "differs by 1" in section(viewer.text("/"), "balance")


def test_what_waits_in_lanes_is_told_and_what_is_late_needs_somebody(viewer: Visitor, runtime: Runtime) -> None:
    world = World(runtime)
    cases = world.cases(3)
    done = runtime.desk.operate.replay([case.id for case in cases], **BY, delay_s=300)
    assert len(done.done) == 3, done
    page = viewer.text("/")
    lanes = section(page, "lanes")
    assert '<span class="big">3</span> records wait' in lanes
    assert f'href="/desk/lanes/{FLOW}/0"' in lanes
    assert "in 5 min" in lanes or "in 4 min" in lanes
    assert not [need for need in needs(page) if "lane" in need.text]
    runtime.database.shift_clock(600)
    late = [need for need in needs(viewer.text("/")) if "lane" in need.text]
    assert [(need.href, need.is_bad) for need in late] == [(f"/desk/lanes/{FLOW}/0", True)]


def test_processes_and_their_last_deaths(viewer: Visitor, runtime: Runtime) -> None:
    runtime.duties.want([NewDuty("importer", "command", "here", DutySpec(("true",)))], **BY)
    death = NewDeath("importer", 1, None, "here", 4711, DeathKind.SIGNAL, None, 9, "", None, 1, "peer-1")
    with runtime.database.transaction() as tx:
        DeathStore(runtime.database).record(tx, death)
    page = viewer.text("/")
    processes = section(page, "processes")
    assert "0 of 1" in processes
    assert 'href="/processes/importer"' in processes
    assert "signal 9" in processes
    assert ("/processes", True) in [(each.href, each.is_bad) for each in needs(page)]


def test_actors_at_work(viewer: Visitor, runtime: Runtime) -> None:
    runtime.actors.register(Sleeper)
    host = runtime.actors.host()
    host.start()
    try:
        runtime.actors.start(Sleeper, Nap(3600), instance="long")
        wait_until(lambda: runtime.actors.instance("sleeper", "long").phase is Phase.SLEEPING, timeout_s=30)
    finally:
        host.stop()
    page = section(viewer.text("/"), "workflows")
    assert 'href="/actors?actor=sleeper"' in page
    assert ">sleeping<" in page


def test_messages_uploads_and_complaints_that_need_somebody(
    viewer: Visitor, runtime: Runtime, make_visitor: MakeVisitor
) -> None:
    inbox = runtime.queue.inbox("greeter")
    for _ in range(2):
        runtime.queue.operator("test").send("greeter", "greet", {}, "a test")
    failed, dead = inbox.claim(2)
    inbox.fail(failed, "nobody is at home")
    runtime.queue.operator("test").set_state(dead.id, MessageState.DEAD, "a test")
    upload = send_upload(runtime, "trips", {"trips": [{"n": 1}]})
    with runtime.database.transaction() as tx:
        UploadStore(runtime.database).note_failure(tx, upload, "division by zero")
    runtime.complaints.make(NewComplaint("docs", "a-1", "the city is wrong"))
    expected = [
        Need("1 message has failed", "/queue/messages?state=ERR"),
        Need("1 message is dead", "/queue/messages?state=DEAD"),
        Need("1 complaint waits for an answer", "/complaints?state=new"),
    ]
    assert needs(viewer.text("/")) == expected  # the upload is somebody else's
    closing = Need("1 upload cannot be closed", f"/uploads/{upload}", True)
    operator = make_visitor("operator")
    assert needs(operator.text("/")) == [closing, *expected]
    for need in (closing, *expected):
        assert operator.get(need.href).status_code == 200, need


def test_what_stands_in_rows_is_text(viewer: Visitor, runtime: Runtime) -> None:
    hostile = " ".join(HOSTILE).replace("\x07", "").replace("\x1b", "")
    World(runtime, log=False).case(failure=RecordFailure(ErrorCode.NOT_VALID, hostile[:60], "Kind", hostile))
    world = FlowWorld(runtime, "flow", TOPIC)
    world.move(StageState.HALTED, reason=hostile)
    page = viewer.text("/")
    assert not has_run(page)
    assert "{{" in page


def test_titles_of_masked_groups_are_hidden(make_visitor: MakeVisitor, make_desk: Callable[..., Runtime]) -> None:
    masked = make_desk(desk={"masked": {FLOW: ["email"]}})
    World(masked, log=False).case(failure=RecordFailure(ErrorCode.NOT_VALID, "check", "Kind", "a@b.example is bad"))
    assert "a@b.example" not in make_visitor("viewer", masked).text("/")
    assert "a@b.example" in make_visitor("admin", masked).text("/")


def test_who_is_not_logged_in_is_asked_to(make_visitor: MakeVisitor) -> None:
    answer = make_visitor(None).get("/")
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=%2F")


LOOK_AT_ALL = """
import sys
import towpath
from tests.support.console import Visitor, make_user
from tests.support.flow_world import FLOW, TOPIC, FlowWorld
from tests.support.http import close_loop
from towpath.web.app import Surface, build_app
with towpath.connect(f"sqlite:///{sys.argv[1]}/towpath.db", log={"url": "embedded"}) as runtime:
    world = FlowWorld(runtime)
    world.send(b"{}")
    world.batch(records=1)
    visitor = Visitor(build_app(runtime, Surface.CONSOLE))
    visitor.log_in(make_user(runtime, "admin"))
    record = f"/trace?topic={TOPIC}&partition=0&offset=0"
    at = f"/flows/{FLOW}"
    for path in ("/", "/flows", at, f"{at}/audit?count=yes", f"{at}/reset", f"/topics/{TOPIC}", record, "/find?q=x"):
        visitor.text(path)
    visitor.done(f"{at}/pause")
close_loop()
sys.exit("pyspark" in sys.modules)
"""


@pytest.mark.part("matrix")
def test_no_page_loads_spark(tmp_path: Path) -> None:
    """The console's process stays small, and needs no Java."""
    command = [sys.executable, "-c", LOOK_AT_ALL, str(tmp_path)]
    root = Path(__file__).parents[2]
    ran = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
