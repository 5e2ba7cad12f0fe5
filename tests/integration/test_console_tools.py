"""Users, keys, the trail, block rules, complaints and maintenance on pages."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.support.console import HOSTILE, PASSWORD, MakeVisitor, has_run, said
from tests.support.tables import rows

from towpath.blocks.rule import BlockAction, BlockMatch, BlockState
from towpath.catalog.complaints.store import ComplaintOutcome, ComplaintState, NewComplaint
from towpath.errors import NotLoggedIn, UnknownUser
from towpath.runtime import Runtime

BY: dict[str, Any] = {"who": "test", "why": "a test"}
LINK = re.compile(r"http://127\.0\.0\.1:8470(/welcome/[\w-]+)")


def test_a_user_is_added_with_a_link_and_comes_in(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    admin = make_visitor("admin")
    shown = admin.post("/users", name="bob", role="operator").text
    found = LINK.search(shown)
    assert found is not None
    bob = make_visitor(None)
    answer = bob.send(found[1], {"password": PASSWORD, "again": PASSWORD})
    assert answer.status_code == 303
    bob.text("/queue")
    assert found[1].rpartition("/")[2] not in str(rows(runtime.database, "access_link"))  # what it hashes to is kept
    assert "bob" in admin.text("/users")
    assert "127.0.0.1" in admin.text("/users/bob") or "testclient" in admin.text("/users/bob")


def test_roles_change_at_once_and_the_last_admin_stays(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    admin, viewer = make_visitor("admin"), make_visitor("viewer")
    assert viewer.get("/users").status_code == 403
    admin.done("/users/viewer/role", role="admin", back="/users/viewer")
    assert viewer.get("/users").status_code == 200
    admin.done("/users/viewer/disable", back="/users")
    assert viewer.get("/users").status_code == 303
    assert admin.post("/users/admin/disable").status_code == 409
    admin.done("/users/viewer/enable", back="/users")
    assert viewer.get("/users").status_code == 200


@pytest.mark.parametrize("path", ["/users", "/users/admin/role", "/users/admin/link", "/users/admin/disable", "/keys"])
def test_who_is_no_admin_changes_no_access(make_visitor: MakeVisitor, runtime: Runtime, path: str) -> None:
    make_visitor("admin")
    for role in ("viewer", "operator"):
        visitor = make_visitor(role)
        before = (
            rows(runtime.database, "access_user"),
            rows(runtime.database, "access_key"),
            rows(runtime.database, "access_link"),
        )
        fields = {"name": "eve", "role": "admin", "user": role, "scope": "admin", "label": "x"}
        assert visitor.post(path, **fields).status_code == 403
        assert (
            rows(runtime.database, "access_user"),
            rows(runtime.database, "access_key"),
            rows(runtime.database, "access_link"),
        ) == before
        assert "API keys" not in visitor.text("/queue")
    with pytest.raises(UnknownUser):
        runtime.access.user("eve")


def test_a_key_is_shown_once_works_and_is_revoked(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    admin = make_visitor("admin")
    shown = admin.post("/keys", user="admin", label="cron", scope=["read", "metrics"], days="7").text
    found = re.search(r"tp_[a-z0-9]{8}_[\w-]{43}", shown)
    assert found is not None
    principal = runtime.access.log_in.by_key(found[0])
    assert principal.scopes == {"read", "metrics"}
    page = admin.text("/keys")
    assert "cron" in page
    assert found[0] not in page
    [key] = runtime.access.keys()
    assert "opens nothing" in said(admin.done(f"/keys/{key.id}/revoke", back="/keys"))
    with pytest.raises(NotLoggedIn):
        runtime.access.log_in.by_key(found[0])
    assert admin.post("/keys", user="admin", label="x").status_code == 422  # no scope


def test_the_trail_tells_who_asked_for_what(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    admin = make_visitor("admin")
    admin.done("/users/admin/role", role="admin", back="/users")
    assert admin.post("/users/nobody/role", role="admin").status_code == 404
    page = admin.text("/trail?who=admin")
    assert "set role" in page
    assert ">refused<" in page
    assert "set role" not in admin.text("/trail?who=somebody")
    assert make_visitor("operator").get("/trail").status_code == 403


def test_a_block_rule_is_made_and_withdrawn(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    operator = make_visitor("operator")
    fields = {"action": "ignore", "topic": "clicks", "key": "bot", "until": "2999-12-31"}
    assert said(operator.done("/blocks", **fields))
    block = runtime.blocks.show(1)
    assert (block.rule.action, block.rule.match) == (BlockAction.IGNORE, BlockMatch.of(topic="clicks", key="bot"))
    assert (block.approved_by, block.state) == ("operator", BlockState.ACTIVE)
    operator.done("/blocks/1/withdraw", back="/blocks")
    assert runtime.blocks.show(1).state is BlockState.WITHDRAWN
    assert "withdrawn" in operator.text("/blocks?state=withdrawn")
    assert operator.post("/blocks/1/withdraw").status_code == 409
    assert operator.post("/blocks", action="ignore", until="2999-12-31").status_code == 422
    assert operator.post("/blocks", action="eat", key="x", until="2999-12-31").status_code == 422
    assert operator.post("/blocks", action="ignore", where="value.(", until="2999-12-31").status_code == 422
    viewer = make_visitor("viewer")
    assert viewer.post("/blocks", **fields).status_code == 403
    assert len(runtime.blocks.list()) == 1


def test_a_complaint_is_taken_and_dismissed(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    operator, viewer = make_visitor("operator"), make_visitor("viewer")
    operator.done(
        "/complaints/add", target="views", document="doc-7", said="wrong price", contact="ann@example.org", flow=""
    )
    assert "ann@example.org" in operator.text("/complaints/1")
    assert "ann@example.org" not in viewer.text("/complaints/1")  # who cannot act needs nobody's address
    operator.done("/complaints/1/take", back="/complaints/1")
    assert runtime.complaints.show(1).state is ComplaintState.TAKEN
    for act in ("take", "dismiss", "block", "rerun"):
        assert viewer.post(f"/complaints/1/{act}", reply="x", until="2999-12-31").status_code == 403
    operator.done("/complaints/1/dismiss", reply="It is right.", back="/complaints/1")
    done = runtime.complaints.show(1)
    assert (done.state, done.outcome, done.reply) == (
        ComplaintState.SETTLED,
        ComplaintOutcome.DISMISSED,
        "It is right.",
    )
    assert operator.post("/complaints/1/dismiss", reply="again").status_code == 409


def test_readers_complain_where_that_is_set(make_visitor: MakeVisitor, make_runtime: Any) -> None:
    runtime = make_runtime(complaints={"public": True})
    reader = make_visitor(None, runtime)
    form = reader.text("/complain?target=views&document=doc-7")
    assert 'value="doc-7"' in form
    sent = {"target": "views", "document": "doc-7", "said": "<script>alert(1)</script>", "contact": "", "flow": ""}
    answer = reader.send("/complain", sent)
    assert answer.status_code == 202
    assert "number 1" in answer.text
    assert runtime.complaints.show(1).about == NewComplaint("views", "doc-7", "<script>alert(1)</script>")
    wrong = reader.send("/complain", {**sent, "said": " "})
    assert wrong.status_code == 422
    assert 'value="doc-7"' in wrong.text  # what was filled in is still there


def test_readers_find_no_form_where_it_is_not(make_visitor: MakeVisitor) -> None:
    assert make_visitor(None).get("/complain").status_code == 404
    assert make_visitor(None).send("/complain", {"target": "x"}).status_code == 404


def test_cleaning_says_what_it_did(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    operator = make_visitor("operator")
    assert "queue-reap" in operator.text("/maintenance")
    assert said(operator.done("/maintenance/queue/run", back="/maintenance")).startswith("queue: ")
    assert "by operator" in operator.text("/maintenance")
    assert operator.post("/maintenance/everything/run").status_code == 404
    assert make_visitor("viewer").post("/maintenance/queue/run").status_code == 403


def test_nothing_that_people_write_runs(make_visitor: MakeVisitor, runtime: Runtime) -> None:
    admin = make_visitor("admin")
    for number, text in enumerate(HOSTILE, 1):
        kept = text.replace("\x07", "").replace("\x1b", "")
        runtime.access.make_key("admin", ["read"], who=kept, why=kept, label=kept)
        runtime.blocks.add(
            BlockAction.REFUSE, BlockMatch.of(topic=kept, key=kept), until="2999-12-31", who="test", why=kept
        )
        runtime.complaints.make(NewComplaint(kept, kept, kept, kept, kept))
        for path in ("/keys", "/blocks", "/complaints", f"/complaints/{number}", "/users/admin", "/trail"):
            assert not has_run(admin.text(path)), path
