"""Notices on their page: what there was to tell, where it goes, and trying whether it arrives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.console import HOSTILE, MakeVisitor, has_run, said
from tests.support.desk_world import FLOW, World
from tests.support.receivers import webhook

from towpath.notify.model import Notice, NoticeKind
from towpath.runtime import Runtime


def tell(runtime: Runtime, subject: str, title: str, data: dict[str, Any]) -> None:
    with runtime.database.transaction() as tx:
        runtime.notify.notices.tell(tx, Notice(NoticeKind.GROUP_FOUND, subject, title, data))


def test_where_nobody_is_told_the_page_opens(make_visitor: MakeVisitor) -> None:
    make_visitor("viewer").text("/notices")


def test_what_there_was_to_tell_leads_to_what_it_is_about(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    group = World(runtime, log=False).case().group_id
    tell(runtime, f"{FLOW}/{group}", f"group {group} is new{HOSTILE}", {"flow": FLOW, "group": group, "title": HOSTILE})
    tell(runtime, FLOW, "7 more groups", {"flow": FLOW, "groups": 7})
    viewer = make_visitor("viewer")
    for page in ("/notices", "/events"):
        shown = viewer.text(page)
        assert f'href="/desk/groups/{group}"' in shown, page
        assert f'href="/desk/groups?flow={FLOW}"' in shown, page
        assert not has_run(shown), page
    assert viewer.get(f"/desk/groups/{group}").status_code == 200


def test_pages_go_on(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    for number in range(60):
        tell(runtime, f"{FLOW}/{number}", f"group {number} is new", {"flow": FLOW, "group": number, "title": "x"})
    viewer = make_visitor("viewer")
    first = viewer.text("/notices")
    assert "group 59 is new" in first
    assert "group 9 is new" not in first
    last = runtime.notify.page(limit=50)[-1].seq
    assert f"before={last}" in first
    assert "group 9 is new" in viewer.text(f"/notices?before={last}")
    viewer.text("/notices?before=1")
    assert viewer.get("/notices?before=x").status_code == 422


def test_titles_of_masked_flows_are_hidden(make_visitor: MakeVisitor, make_runtime: Callable[..., Runtime]) -> None:
    masked = make_runtime(desk={"masked": {FLOW: ["email"]}})
    tell(masked, f"{FLOW}/1", "group 1 is new: a@b.example is bad", {"flow": FLOW, "title": "a@b.example is bad"})
    assert "a@b.example" not in make_visitor("viewer", masked).text("/notices")
    assert "a@b.example" in make_visitor("admin", masked).text("/notices")


def test_a_target_is_tried(make_visitor: MakeVisitor, make_runtime: Callable[..., Runtime]) -> None:
    with webhook() as taken:
        hooks = [
            {"name": "ops", "url": taken.url, "secret": "s" * 32},
            {"name": "away", "url": "http://127.0.0.1:9/", "secret": "s" * 32},
        ]
        runtime = make_runtime(notify={"webhooks": hooks})
        viewer, operator = make_visitor("viewer", runtime), make_visitor("operator", runtime)
        assert "Try…" not in viewer.text("/notices")
        assert viewer.post("/notices/targets/ops/try").status_code == 403
        assert taken.posts == []
        assert "ops" in said(operator.done("/notices/targets/ops/try", back="/notices"))
        assert len(taken.posts) == 1
        assert "away" in said(operator.done("/notices/targets/away/try", back="/notices"))
        assert operator.post("/notices/targets/nobody/try").status_code == 404
        assert "s" * 32 not in operator.text("/notices")
