"""Notifications by real HTTP and SMTP, on both databases."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.support.receivers import RIGHT, Certificates, certificates, dripping, hanging, mail_server, webhook
from tests.support.tables import by_hand, events, rows

from towpath.errors import NotDelivered, UnknownTarget
from towpath.notify.channels import sign
from towpath.notify.courier import inbox_of
from towpath.notify.model import Notice, NoticeKind
from towpath.runtime import Runtime
from towpath.testing.clock import wait_until

SECRET = "a secret of the test"  # noqa: S105 - opens nothing
DAY_S = 86_400.0

Make = Callable[..., Runtime]


def hook(url: str, name: str = "ops", **more: Any) -> dict[str, Any]:
    return {"name": name, "url": url, "secret": SECRET, **more}


def tell(runtime: Runtime, *subjects: str, kind: NoticeKind = NoticeKind.GROUP_FOUND) -> None:
    with runtime.database.transaction() as tx:
        for subject in subjects:
            runtime.notify.notices.tell(tx, Notice(kind, subject, f"{subject} is new", {"flow": "shop"}))


@contextmanager
def running(runtime: Runtime) -> Iterator[None]:
    services = runtime.notify.services()
    for service in services:
        service.start()
    try:
        yield
    finally:
        for service in services:
            service.stop()


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates(tmp_path_factory.mktemp("certificates"))


def test_a_flood_is_one_signed_message(make_runtime: Make) -> None:
    with webhook() as taken:
        runtime = make_runtime(notify={"webhooks": [hook(taken.url)], "window_s": 0.5})
        tell(runtime, *(f"shop/{number}" for number in range(200)))
        tell(runtime, *(f"shop/{number}" for number in range(200)))
        with running(runtime):
            [post] = taken.wait(1)
            wait_until(lambda: rows(runtime.database, "message")[0]["state"] == "OK")
        assert len(taken.posts) == 1
    message_id = post.headers["webhook-id"]
    timestamp = int(post.headers["webhook-timestamp"])
    assert abs(timestamp - time.time()) < 60
    assert post.headers["webhook-signature"] == sign(SECRET, message_id, timestamp, post.body)
    body = json.loads(post.body)
    assert (body["type"], body["id"]) == ("towpath.notices", message_id)
    assert body["data"]["counts"] == {"group_found": 200}
    assert body["data"]["more"] == 150
    assert body["data"]["notices"][0]["times"] == 2
    assert rows(runtime.database, "message")[0]["id"] == message_id
    assert len(events(runtime.database, "group_found")) == 200  # each is told once
    [sent] = events(runtime.database, "notification_sent")
    assert sent["subject"] == "ops"


def test_nothing_goes_out_before_the_window_ends(make_runtime: Make) -> None:
    with webhook() as taken:
        # So long that its end does not come by itself before a busy machine has looked.
        runtime = make_runtime(notify={"webhooks": [hook(taken.url)], "window_s": 3600})
        collector = runtime.notify.collector()
        assert collector.run_once().done == 0
        tell(runtime, "shop/1")
        assert collector.run_once().done == 0
        runtime.database.shift_clock(3500)
        tell(runtime, "shop/2")
        assert collector.run_once().done == 0
        runtime.database.shift_clock(101)
        assert collector.run_once().done == 2
        tell(runtime, "shop/3")  # the next window begins when the last one has ended
        assert collector.run_once().done == 0
        runtime.database.shift_clock(3601)
        assert collector.run_once().done == 1
    assert [row["state"] for row in rows(runtime.database, "message")] == ["NEW", "NEW"]


def test_the_same_is_not_told_again_for_a_while(make_runtime: Make) -> None:
    runtime = make_runtime(notify={"repeat_s": 3600})
    collector = runtime.notify.collector()
    tell(runtime, "shop/1")
    assert collector.hand_over() == 1
    tell(runtime, "shop/1")
    assert collector.hand_over() == 0
    assert [(each.subject, each.times) for each in runtime.notify.page()] == [("shop/1", 2)]
    runtime.database.shift_clock(3601)
    tell(runtime, "shop/1")
    assert collector.hand_over() == 1
    assert len(events(runtime.database, "group_found")) == 2


def test_what_is_rolled_back_was_never_told(runtime: Runtime) -> None:
    with pytest.raises(ZeroDivisionError), runtime.database.transaction() as tx:
        runtime.notify.notices.tell(tx, Notice(NoticeKind.LANE_STUCK, "shop/1", "stuck"))
        1 / 0  # noqa: B018
    assert runtime.notify.page() == []
    assert events(runtime.database, "lane_stuck") == []


def test_each_target_hears_of_what_it_wants(make_runtime: Make) -> None:
    with webhook() as one, webhook() as other:
        targets = [hook(one.url, "one", kinds=["lane_stuck"]), hook(other.url, "other", kinds=["group_found"])]
        runtime = make_runtime(notify={"webhooks": targets, "window_s": 0.2})
        tell(runtime, "shop/1", "shop/2")
        tell(runtime, "shop/3", kind=NoticeKind.DESK_GROWING)
        with running(runtime):
            other.wait(1)
            wait_until(lambda: not [row for row in rows(runtime.database, "message") if row["state"] != "OK"])
    assert one.posts == []
    assert json.loads(other.posts[0].body)["data"]["counts"] == {"group_found": 2}


def test_what_is_not_taken_is_tried_again_under_the_same_id(
    make_runtime: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("towpath.notify.courier.FIRST_PAUSE_S", 0.05)
    with webhook() as taken:
        taken.statuses = [500, 302, 404, 204]
        runtime = make_runtime(notify={"webhooks": [hook(taken.url)], "window_s": 0.1})
        tell(runtime, "shop/1")
        with running(runtime):
            posts = taken.wait(4)
            wait_until(lambda: rows(runtime.database, "message")[0]["state"] == "OK")
    assert len({post.headers["webhook-id"] for post in posts}) == 1
    assert [post.path for post in posts] == ["/hooks/secret-token"] * 4  # a redirect is not followed
    assert rows(runtime.database, "message")[0]["give_backs"] == 3
    delayed = events(runtime.database, "notification_delayed")
    assert [each["why"].rpartition(" ")[2] for each in delayed] == ["500", "302", "404"]
    found = runtime.notify.deliveries()["ops"]
    assert (found.waiting, found.tries, found.error, found.given_up_at) == (0, 0, None, None)
    assert found.delivered_at is not None


def test_what_is_tried_again_is_seen_as_failing(make_runtime: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("towpath.notify.courier.FIRST_PAUSE_S", 600.0)  # the second try does not come meanwhile
    with webhook() as taken:
        taken.statuses = [500]
        runtime = make_runtime(notify={"webhooks": [hook(taken.url), hook(taken.url, "idle", kinds=["lane_stuck"])]})
        tell(runtime, "shop/1")
        runtime.notify.collector().hand_over()
        assert runtime.notify.deliveries()["ops"].waiting == 1
        with running(runtime):
            wait_until(lambda: rows(runtime.database, "message")[0]["give_backs"] == 1)
    found, idle = (runtime.notify.deliveries()[name] for name in ("ops", "idle"))
    assert (found.waiting, found.tries, found.delivered_at) == (1, 1, None)
    assert " 500" in (found.error or "")
    assert found.next_try_at is not None
    assert (idle.waiting, idle.tries, idle.delivered_at, idle.error) == (0, 0, None, None)


def test_after_the_last_try_it_is_given_up_and_people_can_see_it(
    make_runtime: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("towpath.notify.courier.FIRST_PAUSE_S", 0.05)
    with webhook() as taken:
        taken.statuses = [503]
        runtime = make_runtime(notify={"webhooks": [hook(taken.url)], "window_s": 0.1, "attempts": 3})
        tell(runtime, "shop/1")
        with running(runtime):
            wait_until(lambda: [r["state"] for r in rows(runtime.database, "message")] == ["ERR"], 30)
        assert len(taken.posts) == 3
    [given_up] = events(runtime.database, "notification_failed")
    assert " 503" in given_up["why"]
    found = runtime.notify.deliveries()["ops"]
    assert (found.waiting, found.tries) == (0, 0)
    assert found.given_up_at is not None
    assert " 503" in (found.error or "")
    assert "secret-token" not in str(rows(runtime.database, "message"))
    assert "secret-token" not in str(rows(runtime.database, "event"))


def test_one_that_is_gone_is_not_tried_again(make_runtime: Make) -> None:
    with webhook() as taken:
        taken.statuses = [410]
        runtime = make_runtime(notify={"webhooks": [hook(taken.url)], "window_s": 0.1})
        tell(runtime, "shop/1")
        with running(runtime):
            wait_until(lambda: [r["state"] for r in rows(runtime.database, "message")] == ["ERR"], 30)
        assert len(taken.posts) == 1


@pytest.mark.part("matrix")
@pytest.mark.parametrize("behaviour", [hanging, dripping])
def test_a_webhook_that_hangs_holds_up_nobody(make_runtime: Make, behaviour: Any) -> None:
    with behaviour() as port, webhook() as taken:
        targets = [hook(f"http://127.0.0.1:{port}/", "stuck"), hook(taken.url, "well")]
        runtime = make_runtime(notify={"webhooks": targets, "window_s": 0.1, "timeout_s": 6, "attempts": 1})
        tell(runtime, "shop/1")
        with running(runtime):
            taken.wait(1)
            [waiting] = [r for r in rows(runtime.database, "message") if r["inbox"] == inbox_of("stuck")]
            assert waiting["state"] in ("NEW", "ACK")
            wait_until(lambda: events(runtime.database, "notification_failed"), 30)
    [given_up] = events(runtime.database, "notification_failed")
    assert given_up["subject"] == "stuck"


def test_a_webhook_over_tls(make_runtime: Make, signed: Certificates) -> None:
    with webhook(signed.server) as taken:
        runtime = make_runtime(notify={"webhooks": [hook(taken.url)], "ca_file": signed.ca_file})
        runtime.notify.try_out("ops")
        assert len(taken.posts) == 1
        untrusting = make_runtime(notify={"webhooks": [hook(taken.url)]})
        with pytest.raises(NotDelivered, match="ops"):
            untrusting.notify.try_out("ops")
        assert len(taken.posts) == 1


def mail_settings(port: int, security: str, ca_file: str = "", **more: Any) -> dict[str, Any]:
    smtp = {"host": "127.0.0.1", "port": port, "security": security, "sender": "towpath@example.org", **more}
    emails = [{"name": "team", "to": ["ann@example.org", "bea@example.org"]}]
    # Longer than a busy machine stands still: a mail that was taken and not acknowledged in time would come twice.
    return {"emails": emails, "smtp": smtp, "ca_file": ca_file, "window_s": 0.1, "timeout_s": 60}


@pytest.mark.parametrize("security", ["none", "starttls", "tls"])
def test_an_email(make_runtime: Make, signed: Certificates, security: str) -> None:
    with mail_server(None if security == "none" else signed.server, at_once=security == "tls") as box:
        settings = mail_settings(box.port, security, signed.ca_file, user="towpath", password=RIGHT)
        runtime = make_runtime(notify=settings)
        with runtime.database.transaction() as tx:
            title = "no city\r\nBcc: eve@example.org\r\n\r\n<b>in</b> Zürich"
            runtime.notify.notices.tell(tx, Notice(NoticeKind.GROUP_REGRESSED, "shop/7", title))
        with running(runtime):
            wait_until(lambda: box.mails, 30)
            wait_until(lambda: rows(runtime.database, "message")[0]["state"] == "OK")
    [mail] = box.mails
    assert (mail["To"], mail["From"]) == ("ann@example.org, bea@example.org", "towpath@example.org")
    assert mail["Subject"].startswith("[Towpath] 1 ")
    assert mail["Message-ID"] == f"<{rows(runtime.database, 'message')[0]['id']}@example.org>"
    payload = mail.get_payload(decode=True)
    assert isinstance(payload, bytes)
    assert "no city Bcc: eve@example.org <b>in</b> Zürich" in payload.decode()
    assert mail["Bcc"] is None
    assert len(box.recipients) == 2
    assert box.log_ins == [("towpath", "right")]
    assert box.were_encrypted == [security != "none"]


def test_a_mail_server_that_says_later(make_runtime: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("towpath.notify.courier.FIRST_PAUSE_S", 0.05)
    with mail_server() as box:
        box.refusals = 2
        runtime = make_runtime(notify=mail_settings(box.port, "none"))
        tell(runtime, "shop/1")
        with running(runtime):
            wait_until(lambda: box.mails, 30)
            wait_until(lambda: rows(runtime.database, "message")[0]["state"] == "OK")
    assert rows(runtime.database, "message")[0]["give_backs"] == 2


@pytest.mark.parametrize(
    ("security", "more", "said"),
    [
        ("none", {"user": "x", "password": "not this"}, "mail server 127.0.0.1 for team answered 535"),
        ("starttls", {}, "mail server 127.0.0.1 for team"),  # it does not offer that
        ("tls", {}, "mail server 127.0.0.1 for team"),
    ],
)
def test_a_mail_server_that_does_not_fit(make_runtime: Make, security: str, more: dict[str, str], said: str) -> None:
    with mail_server() as box:
        runtime = make_runtime(notify=mail_settings(box.port, security, **more))
        with pytest.raises(NotDelivered) as caught:
            runtime.notify.try_out("team")
    assert said in str(caught.value)
    assert "not this" not in str(caught.value)
    assert box.mails == []


def test_a_mail_server_that_hangs(make_runtime: Make) -> None:
    with hanging() as port:
        settings = mail_settings(port, "none") | {"timeout_s": 0.5}
        with pytest.raises(NotDelivered):
            make_runtime(notify=settings).notify.try_out("team")


def test_nobody_is_there(make_runtime: Make) -> None:
    with socket.socket() as held:  # without listening: a port that was let go of may be somebody else's by now
        held.bind(("127.0.0.1", 0))
        runtime = make_runtime(notify={"webhooks": [hook(f"http://127.0.0.1:{held.getsockname()[1]}/")]})
        with pytest.raises(NotDelivered, match="refused"):
            runtime.notify.try_out("ops")
    with pytest.raises(UnknownTarget, match="'nobody'"):
        runtime.notify.try_out("nobody")


def test_without_targets_notices_are_only_kept(runtime: Runtime) -> None:
    tell(runtime, "shop/1")
    assert runtime.notify.collector().hand_over() == 1
    assert rows(runtime.database, "message") == []
    assert [each.state for each in runtime.notify.page()] == ["handed"]


def test_two_collectors_hand_over_once(make_runtime: Make) -> None:
    runtimes = [make_runtime(notify={"webhooks": [hook("http://127.0.0.1:9/")]}) for _ in range(2)]
    collectors = [runtime.notify.collector() for runtime in runtimes]
    from concurrent.futures import ThreadPoolExecutor

    for number in range(5):
        tell(runtimes[0], f"shop/{number}")
        with ThreadPoolExecutor(2) as pool:
            handed = list(pool.map(lambda collector: collector.hand_over(), collectors))
        assert sorted(handed) == [0, 1]
    assert len(rows(runtimes[0].database, "message")) == 5


def test_old_notices_are_deleted(make_runtime: Make) -> None:
    runtime = make_runtime(notify={"retention_s": 10 * DAY_S})
    tell(runtime, "shop/1")
    runtime.notify.collector().hand_over()
    runtime.database.shift_clock(11 * DAY_S)
    tell(runtime, "shop/2")
    runtime.notify.collector().run_once()
    assert [each.subject for each in runtime.notify.page()] == ["shop/2"]


def test_the_database_holds_one_waiting_notice_of_a_kind(runtime: Runtime) -> None:
    tell(runtime, "shop/1")
    with pytest.raises(Exception, match=r"(?i)unique"):
        by_hand(
            runtime.database,
            "insert into notify_notice (kind, subject, title, state, at, last_at) "
            "values ('group_found', 'shop/1', 'x', 'waiting', 1, 1)",
        )
