"""The pages of processes: what has to run, who died, what one writes and owns; stopping and restarting."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path

import pytest
from tests.support.console import HOSTILE, MakeVisitor, has_run, said
from tests.support.supervised import BROKEN, LONG_SILENT_S, WORKER, Keeping, keeping, sections
from tests.support.tables import events, rows

from towpath.runtime import Runtime
from towpath.supervision.duties.model import DutySpec, DutyState, NewDuty
from towpath.testing.clock import wait_until

LOUD = """
import signal, threading
import towpath
from towpath.testing.clock import wait_for_handler
ended = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ended.set())
with towpath.connect() as runtime:
    runtime.queue.inbox("work").claim(10)
    for number in range(150):
        print("line", number, "<script>alert(1)</script>", flush=True)
    runtime.process().report("copies", {"done": 40, "of": "<img src=x>"})
    runtime.process().ready("copies <b>files</b>")
    wait_for_handler(ended)
"""


@pytest.fixture
def runtime(make_runtime: Callable[..., Runtime], tmp_path: Path) -> Runtime:
    return make_runtime(**sections(tmp_path, silent_s=LONG_SILENT_S))


@pytest.fixture
def kept(runtime: Runtime) -> Iterator[Keeping]:
    with keeping(runtime) as made:
        yield made


def test_nothing_has_to_run(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    process = runtime.process()
    page = make_visitor("viewer").text("/processes")
    assert process.id in page


def test_a_process_is_shown_restarted_and_stopped(kept: Keeping, make_visitor: MakeVisitor, runtime: Runtime) -> None:
    operator, viewer = make_visitor("operator"), make_visitor("viewer")
    runtime.queue.synchronous("work")
    message_id = runtime.queue.operator("ann").send("work", "f", {}, "a test")
    kept.want("worker", LOUD)
    first = kept.wait_for("worker", DutyState.READY)
    page = viewer.text("/processes")
    assert "1 of 1 ready" in page
    assert "copies &lt;b&gt;files&lt;/b&gt;" in page
    wait_until(lambda: any(line.startswith("line 149 ") for line in kept.log("worker")), what="what it has printed")
    page = viewer.text("/processes/worker")
    assert f"/queue/messages/{message_id}" in page  # what it owns
    assert "line 149 &lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "line 49 " not in page
    assert "line 0 " in viewer.text("/processes/worker?lines=1000")
    assert not has_run(page)
    assert "/restart" not in page  # no button that would be refused
    by_id = viewer.text(f"/processes/{first.process_id}")
    assert '<a href="/processes/worker">worker</a>, start 1' in by_id

    for what in ("stop", "restart"):
        viewer.refused(f"/processes/worker/{what}", 403)
    assert kept.duty("worker").launch == 1
    assert events(runtime.database, "duty_changed_by_hand")[1:] == []

    page = operator.done("/processes/worker/restart", back="/processes/worker")
    assert "worker" in said(page)
    kept.wait_for("worker", DutyState.READY, 2)
    operator.done("/processes/worker/stop", back="/processes", why="<enough>")
    kept.wait_for("worker", DutyState.STOPPED)
    assert "operator: &lt;enough&gt;" in viewer.text("/processes")
    told = [(row["who"], row["why"]) for row in events(runtime.database, "duty_changed_by_hand")]
    assert told == [("ann", "a test"), ("operator", "a test"), ("operator", "<enough>")]
    assert [row["what"] for row in rows(runtime.database, "access_audit") if row["outcome"] == "done"] == [
        "restart duty",
        "stop duty",
    ]


def test_deaths_are_told_with_their_causes(kept: Keeping, make_visitor: MakeVisitor, runtime: Runtime) -> None:
    visitor = make_visitor("operator")
    runtime.queue.synchronous("work")
    runtime.queue.operator("ann").send("work", "f", {}, "a test")
    kept.want("broken", BROKEN)
    kept.want("worker", WORKER)
    kept.wait_for("worker", DutyState.READY)
    kept.signal("worker", signal.SIGKILL)
    kept.wait_for("worker", DutyState.READY, 2)
    kept.wait_for("broken", DutyState.FAILED)
    wait_until(lambda: all(each.freed is not None for each in kept.deaths("worker")), 60)
    page = visitor.text("/processes")
    assert "signal 9" in page
    assert "1 messages" in page
    assert page.count(" with code 3") == 3
    page = visitor.text("/processes/broken")
    assert "no luck" in page
    assert "signal 9" not in page
    assert "Start…" in page


def test_what_cannot_be_done_is_said(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    visitor = make_visitor("operator")
    for path in ("/processes/nope", "/processes/a/b"):
        assert visitor.get(path).status_code == 404
    assert "'nope'" in visitor.refused("/processes/nope/stop", 404)
    Keeping(runtime).want("far", WORKER, host="moon")
    page = visitor.text("/processes/far")
    assert "moon" in page
    visitor.done("/processes/far/restart", back="/processes/far")
    visitor.refused("/processes/far/stop", 422, why=" ")
    assert kept_wishes(runtime) == {"far": "run"}


def kept_wishes(runtime: Runtime) -> dict[str, str]:
    return {duty.name: duty.wish for duty in runtime.duties.overview().duties}


def test_names_and_commands_are_harmless(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    visitor = make_visitor("operator")
    hostile = [text for text in HOSTILE if text.isprintable()]
    wanted = [
        NewDuty(f"duty {number} {text}", text, "moon", DutySpec((text,), environment={"PASSWORD": "s3cret-w0rd"}))
        for number, text in enumerate(hostile)
    ]
    runtime.duties.want(wanted, who="ann", why="a test")
    page = visitor.text("/processes")
    assert not has_run(page)
    paths = [unescape(path) for path in re.findall(r'<td class="nowrap"><a href="(/processes/[^"]+)"', page)]
    assert len(paths) == len(hostile)
    for path in paths:
        page = visitor.text(path)
        assert not has_run(page)
        assert "s3cret-w0rd" not in page
        visitor.done(f"{path}/stop", back="/processes")
    assert set(kept_wishes(runtime).values()) == {"stop"}


def test_what_a_process_says_may_be_masked(
    make_runtime: Callable[..., Runtime], make_visitor: MakeVisitor, tmp_path: Path
) -> None:
    desk = {"masked": {"*": ["email"]}, "sees_masked": "operator"}
    runtime = make_runtime(**sections(tmp_path), desk=desk)
    with keeping(runtime) as kept:
        kept.want("broken", "import sys; print('no', 'luck', flush=True); sys.exit(3)")
        kept.wait_for("broken", DutyState.FAILED)
        page = make_visitor("viewer", runtime).text("/processes/broken")
        assert "no luck" not in page
        assert "no luck" not in make_visitor("viewer", runtime).text("/processes")
        assert "no luck" in make_visitor("operator", runtime).text("/processes/broken")


def test_those_that_have_ended_are_shown_when_asked_for(
    make_visitor: MakeVisitor, make_runtime: Callable[..., Runtime], runtime: Runtime
) -> None:
    other = make_runtime()
    gone = other.process().id
    visitor = make_visitor("viewer")
    assert gone in visitor.text("/processes")
    other.close()
    assert gone not in visitor.text("/processes")
    assert gone in visitor.text("/processes?ended=yes")
