"""The search box: straight to what is meant when that is clear; and where a record is, as a story."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.support.audited import FLOW as AUDITED
from tests.support.console import HOSTILE, MakeVisitor, Visitor, has_run
from tests.support.desk_life import Life
from tests.support.desk_world import World
from tests.support.flow_world import FLOW, TOPIC, FlowWorld
from tests.support.quiet import Quiet
from tests.support.sweep import sweep
from tests.support.uploads import open_upload

from towpath.desk.cases.model import Case
from towpath.log import Log, open_log
from towpath.runtime import Runtime
from towpath.settings import LogSettings


@pytest.fixture
def viewer(make_visitor: MakeVisitor, desk_runtime: Runtime) -> Visitor:
    return make_visitor("viewer", desk_runtime)


@pytest.fixture
def case(desk_runtime: Runtime) -> Case:
    return World(desk_runtime).case()


def jump(visitor: Visitor, text: str) -> str | None:
    """Where the box leads at once; none: it shows what it may mean."""
    answer = visitor.get(f"/find?q={quote(text)}")
    assert answer.status_code in (200, 303), answer.text[:2000]
    return answer.headers.get("location")


def test_a_record_of_a_flow_leads_to_its_story_and_others_to_their_page(viewer: Visitor, desk_runtime: Runtime) -> None:
    FlowWorld(desk_runtime).send(b"{}")
    desk_runtime.log.create_topic("plain", 1)
    assert jump(viewer, f"{TOPIC}/0/0") == f"/trace?flow={FLOW}&topic={TOPIC}&partition=0&offset=0"
    assert jump(viewer, "plain/0/7") == "/topics/plain/records/0/7"
    assert jump(viewer, f" {TOPIC}/0 ") == f"/topics/{TOPIC}/records?partition=0"
    assert jump(viewer, f"{TOPIC}:0:0:0") == f"/trace?flow={FLOW}&id={TOPIC}%3A0%3A0%3A0"


def test_cases_and_groups_are_found_by_number_and_id(viewer: Visitor, case: Case) -> None:
    at = f"/desk/cases/{case.id}"
    for text in (f"case {case.seq}", f"Case #{case.seq}", case.id, case.id[:10], case.id.upper()):
        assert jump(viewer, text) == at, text
    assert jump(viewer, f"group {case.group_id}") == f"/desk/groups/{case.group_id}"
    assert jump(viewer, "case 999999") is None
    assert jump(viewer, "group 0") is None


def test_a_number_that_is_several_things_lists_them(viewer: Visitor, case: Case) -> None:
    assert case.seq == case.group_id == 1
    page = viewer.text("/find?q=1")
    assert f'href="/desk/cases/{case.id}"' in page
    assert 'href="/desk/groups/1"' in page


def test_messages_processes_and_names_are_found(viewer: Visitor, desk_runtime: Runtime) -> None:
    desk_runtime.queue.synchronous("greeter")
    sent = desk_runtime.queue.operator("test").send("greeter", "greet", {}, "a test")
    assert jump(viewer, str(sent)) == f"/queue/messages/{sent}"
    assert jump(viewer, "greeter") == "/queue/messages?inbox=greeter"
    me = desk_runtime.process().id
    assert jump(viewer, me) == f"/processes/{me}"
    FlowWorld(desk_runtime, "billing", "invoices")
    assert jump(viewer, "billing") == "/flows/billing"
    assert jump(viewer, "invoices") == "/topics/invoices"
    like = viewer.text("/find?q=bill")
    assert 'href="/flows/billing"' in like
    assert 'href="/topics/billing.errors"' in like


def test_one_hit_can_be_looked_at_as_a_list(viewer: Visitor, desk_runtime: Runtime) -> None:
    FlowWorld(desk_runtime, "billing", "invoices")
    assert 'href="/flows/billing"' in viewer.text("/find?q=billing&all=yes")


def test_what_is_not_found_offers_where_to_look_further(viewer: Visitor, desk_runtime: Runtime) -> None:
    FlowWorld(desk_runtime)
    page = unescape(viewer.text("/find?q=customer-17"))
    assert f'href="/trace?flow={FLOW}&topic={TOPIC}&key=customer-17"' in page
    assert 'href="/desk/cases?text=customer-17"' in page


def test_nothing_was_typed(viewer: Visitor) -> None:
    for query in ("", "?q=", "?q=%20%20"):
        viewer.text(f"/find{query}")


def test_somebody_elses_upload_is_not_found(
    make_visitor: MakeVisitor, make_desk: Callable[..., Runtime], tmp_path: object
) -> None:
    runtime = make_desk(gateway={"directory": f"{tmp_path}/uploads", "streams": {"orders": {}}})
    upload = open_upload(runtime, "orders", "orders")
    assert jump(make_visitor("operator", runtime), upload) == f"/uploads/{upload}"
    assert jump(make_visitor("viewer", runtime), upload) is None


@sweep("text", [*HOSTILE, "a" * 5000, "1" * 400, "../../etc", "//evil", "case", ":", "x/9" * 50])
def test_whatever_is_typed_is_text(viewer: Visitor, case: Case, text: str) -> None:
    answer = viewer.get(f"/find?q={quote(text)}")
    assert answer.status_code == 200
    assert not has_run(answer.text)


# Where a record is


@pytest.fixture
def log(quiet: Quiet, tmp_path: Path) -> Iterator[Log]:
    opened = open_log(LogSettings(url=f"sqlite:///{tmp_path}/log.db"), quiet.database)
    yield opened
    opened.close()


@pytest.fixture
def life(quiet: Quiet, log: Log) -> Life:
    return Life(quiet, log)


@pytest.fixture
def make_reader(make_visitor: MakeVisitor, make_runtime: Callable[..., Runtime], log: Log) -> Callable[..., Visitor]:
    """Somebody who looks at what the life has left."""

    def make(role: str = "viewer", **sections: dict[str, object]) -> Visitor:
        return make_visitor(role, make_runtime(log={"url": log.url}, **sections))

    return make


def test_the_story_of_a_record_that_failed_and_was_replayed(life: Life, make_reader: Callable[..., Visitor]) -> None:
    reader, path = make_reader(), f"/trace?flow={AUDITED}&topic=clicks&partition=0&offset=0"
    life.send("failed")
    assert "in flight" in reader.text(path)
    life.run_batch()
    page = reader.text(path)
    assert f'href="/topics/{AUDITED}.errors/records/0/0"' in page
    assert "batch 1/0" in page
    assert reader.get(f"/topics/{AUDITED}.errors/records/0/0").status_code == 200
    life.take()
    (case,) = life.all_cases()
    life.replay([case])
    page = unescape(reader.text(path))
    assert "attempt 2 " in page
    assert f'href="/desk/cases/{case.id}"' in page
    assert page.index("batch 1/0") < page.index("case 1: ")
    for other in (f"/trace?case={case.seq}", f"/trace?case={case.id}", "/trace?topic=clicks&partition=0&offset=0"):
        assert "attempt 2 " in reader.text(other), other


def test_records_of_a_key_are_found(life: Life, log: Log, make_reader: Callable[..., Visitor]) -> None:
    life.send("loaded", "loaded")
    (key,) = {record.key for record in log.read("clicks", 0, 0) if record.offset == 0}
    assert key is not None
    reader = make_reader()
    page = reader.text(f"/trace?flow={AUDITED}&topic=clicks&key={quote(key)}")
    assert "this key" in page
    assert "clicks/0/0</a>" in page
    reader.text(f"/trace?flow={AUDITED}&topic=clicks&key=nobody")


@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        ("topic=clicks", 422, "say which record"),
        ("topic=clicks&partition=x&offset=1", 422, "partition: "),
        ("topic=nothing&partition=0&offset=1", 422, "no flow that has run here reads topic 'nothing'"),
        (f"flow={AUDITED}&topic=nothing&partition=0&offset=1", 422, "does not read topic 'nothing'"),
        ("flow=nothing&topic=clicks&partition=0&offset=1", 404, "no flow is named 'nothing'"),
        ("case=99", 404, "99"),
        (f"flow={AUDITED}&id=nonsense", 422, "is not made from a record's place"),
    ],
)
def test_what_cannot_be_traced_is_said(
    life: Life, make_reader: Callable[..., Visitor], query: str, status: int, said: str
) -> None:
    life.send("loaded")
    answer = make_reader().get(f"/trace?{query}")
    assert (answer.status_code, said in unescape(answer.text)) == (status, True), unescape(answer.text)[-900:]


def test_nothing_was_asked_for_yet(make_reader: Callable[..., Visitor]) -> None:
    make_reader().text("/trace")


def test_a_story_hides_what_somebody_may_not_see(life: Life, make_reader: Callable[..., Visitor]) -> None:
    life.send("failed")
    life.run_batch()
    path = f"/trace?flow={AUDITED}&topic=clicks&partition=0&offset=0"
    masked = {"masked": {AUDITED: ["$key", "id"]}}
    seen, hidden = make_reader("admin", desk=masked).text(path), make_reader("viewer", desk=masked).text(path)
    assert "key •••" in hidden
    assert "key •••" not in seen
    assert make_reader("viewer", desk=masked).get(f"/trace?flow={AUDITED}&topic=clicks&key=k").status_code == 403
