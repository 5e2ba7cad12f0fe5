"""Pages of uploads: what clients have sent, and what operators do about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.console import HOSTILE, MakeVisitor, Visitor, has_run, said
from tests.support.uploads import OWNER, open_upload, send_input, send_upload

from towpath.gateway.uploads.model import SenderRequest, UploadState
from towpath.gateway.uploads.store import UploadStore
from towpath.runtime import Runtime
from towpath.web.console.uploads import MEANINGS

STREAM = "orders"


@pytest.fixture
def runtime(make_runtime: Callable[..., Runtime], desk_log: dict[str, Any], tmp_path: Any) -> Runtime:
    streams = {STREAM: {"flow": "shop", "results": ["totals"]}, "plain": {}}
    return make_runtime(log=desk_log, gateway={"directory": str(tmp_path / "uploads"), "streams": streams})


@pytest.fixture
def operator(make_visitor: MakeVisitor) -> Visitor:
    return make_visitor("operator")


def failed_closing(runtime: Runtime, why: str = "division by zero") -> str:
    upload = send_upload(runtime, STREAM, {STREAM: [{"n": 1}]})
    with runtime.database.transaction() as tx:
        UploadStore(runtime.database).note_failure(tx, upload, why)
    return upload


def state_of(runtime: Runtime, upload: str) -> UploadState:
    return runtime.gateway.status(upload, owner=None).upload.state


def test_nobody_has_sent_anything(operator: Visitor) -> None:
    operator.text("/uploads")
    assert operator.get("/uploads/none").status_code == 404


def test_uploads_are_listed_and_chosen(operator: Visitor, runtime: Runtime) -> None:
    first = send_upload(runtime, STREAM, {STREAM: [{"n": 1}]})
    other = open_upload(runtime, "plain", "plain")
    both = operator.text("/uploads")
    assert f'href="/uploads/{first}"' in both
    assert f'href="/uploads/{other}"' in both
    for query in ("stream=plain", "state=receiving", f"owner={OWNER}&state=receiving"):
        page = operator.text(f"/uploads?{query}")
        assert other in page
        assert first not in page
    assert other not in operator.text("/uploads?owner=nobody")
    assert operator.get("/uploads?state=flying").status_code == 422


def test_many_are_turned_over_by_pages(operator: Visitor, runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("towpath.web.console.uploads.ROWS", 1)
    first, last = open_upload(runtime, "plain", "plain"), open_upload(runtime, "plain", "plain")
    page = operator.text("/uploads")
    assert last in page
    assert first not in page
    assert 'rel="next"' in page


def test_an_upload_tells_how_far_each_sender_is(operator: Visitor, runtime: Runtime) -> None:
    upload = open_upload(runtime, STREAM, STREAM)
    send_input(runtime, upload, STREAM, [{"n": 1}, {"n": 2}, b"no json"])
    page = operator.text(f"/uploads/{upload}")
    for text in (upload, OWNER, "closing", "finished", ">3<", ">1</a>", "totals", "nothing yet", "upload_opened"):
        assert text in page, text
    assert f'href="/topics/{STREAM}"' in page
    assert 'href="/flows/shop"' in page


def test_an_upload_is_aborted_with_a_reason(operator: Visitor, runtime: Runtime) -> None:
    upload = open_upload(runtime, STREAM, STREAM)
    page = operator.done(f"/uploads/{upload}/abort", why="sent twice")
    assert "aborted" in said(page)
    found = runtime.gateway.status(upload, owner=None).upload
    assert (found.state, found.who, found.why) == (UploadState.ABORTED, "operator", "sent twice")
    assert f'action="/uploads/{upload}/abort"' not in page
    assert "operator: sent twice" in page


def test_a_reason_is_needed(operator: Visitor, runtime: Runtime) -> None:
    upload = open_upload(runtime, STREAM, STREAM)
    operator.refused(f"/uploads/{upload}/abort", 422, why="")
    assert state_of(runtime, upload) is UploadState.RECEIVING


def test_closing_that_has_failed_is_tried_again(operator: Visitor, runtime: Runtime) -> None:
    upload = failed_closing(runtime)
    page = operator.text(f"/uploads/{upload}")
    assert "division by zero" in page
    operator.done(f"/uploads/{upload}/retry", why="it is mended")
    found = runtime.gateway.status(upload, owner=None).upload
    assert (found.tries, found.why) == (0, None)
    assert f'action="/uploads/{upload}/retry"' not in operator.text(f"/uploads/{upload}")


def test_what_is_not_closing_cannot_be_tried_again(operator: Visitor, runtime: Runtime) -> None:
    upload = open_upload(runtime, STREAM, STREAM)
    operator.refused(f"/uploads/{upload}/retry", 409)


def test_a_viewer_sees_and_ends_only_their_own(make_visitor: MakeVisitor, runtime: Runtime, operator: Visitor) -> None:
    upload = failed_closing(runtime)
    viewer, owner = make_visitor("viewer"), make_visitor("viewer", name=OWNER)
    assert upload not in viewer.text("/uploads")
    assert upload not in viewer.text(f"/uploads?owner={OWNER}")
    assert viewer.get(f"/uploads/{upload}").status_code == 404
    viewer.refused(f"/uploads/{upload}/abort", 404)
    for visitor in (viewer, owner):
        visitor.refused(f"/uploads/{upload}/retry", 403)
    assert runtime.gateway.status(upload, owner=None).upload.tries == 1
    page = owner.text(f"/uploads/{upload}")
    assert f'action="/uploads/{upload}/retry"' not in page
    assert state_of(runtime, upload) is UploadState.CLOSING
    owner.done(f"/uploads/{upload}/abort")
    assert state_of(runtime, upload) is UploadState.ABORTED


def test_what_clients_say_is_text(operator: Visitor, runtime: Runtime) -> None:
    hostile = " ".join(HOSTILE).replace("\x07", "").replace("\x1b", "")
    opened = runtime.gateway.open(STREAM, [SenderRequest(STREAM, STREAM, "jsonl")], owner=OWNER, label=hostile[:150])
    failed = failed_closing(runtime, hostile)
    for path in ("/uploads", f"/uploads/{opened.upload.id}", f"/uploads/{failed}"):
        page = operator.text(path)
        assert not has_run(page)
        assert "{{7*7}}" in page


def test_every_state_is_told_in_words() -> None:
    assert set(MEANINGS) == set(UploadState)
