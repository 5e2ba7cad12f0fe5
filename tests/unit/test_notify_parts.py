"""What is sent, how it is signed, and when it is tried again: no network, no database."""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.core.events import EventKind
from towpath.errors import BadSettings
from towpath.notify.channels import key_of, sign, tls
from towpath.notify.courier import LONGEST_PAUSE_S, pause_s
from towpath.notify.model import MOST_SHOWN, NoticeKind, NoticeState, StoredNotice, as_text, digest, one_line, trial
from towpath.settings import NotifySettings, load

AT = datetime(2026, 1, 31, 10, tzinfo=UTC)
ALL = tuple(NoticeKind)


def notice(kind: NoticeKind = NoticeKind.GROUP_FOUND, **values: Any) -> StoredNotice:
    given = {"seq": 1, "subject": "shop/7", "title": "no such city", "data": {}, "times": 1, **values}
    return StoredNotice(kind=kind, state=NoticeState.HANDED, at=AT, last_at=AT, handed_at=AT, **given)


def test_every_kind_is_an_event_and_can_be_chosen() -> None:
    assert [kind.event for kind in NoticeKind] == [EventKind(kind.value) for kind in NoticeKind]
    hook = {"name": "x", "url": "https://x", "secret": "s" * 16, "kinds": [kind.value for kind in NoticeKind]}
    assert NotifySettings(webhooks=[hook]).webhooks[0].kinds == list(NoticeKind)


def test_a_flood_is_one_message_that_counts() -> None:
    found = digest([notice(seq=n, subject=f"shop/{n}") for n in range(500)], ALL)
    assert found is not None
    assert "500 " in found["title"]
    assert (len(found["notices"]), found["more"]) == (MOST_SHOWN, 500 - MOST_SHOWN)
    assert as_text(found).count("\n") < 200


def test_a_target_hears_only_of_what_it_wants() -> None:
    notices = [notice(), notice(NoticeKind.LANE_STUCK, title="stuck"), notice(NoticeKind.LANE_STUCK)]
    found = digest(notices, ["lane_stuck"])
    assert found is not None
    assert found["counts"] == {"lane_stuck": 2}
    assert digest(notices, ["desk_growing"]) is None
    assert digest([], ALL) is None


def test_the_text_for_people() -> None:
    found = digest([notice(times=3), notice(NoticeKind.DESK_GROWING, subject="shop", title="shop fills the desk")], ALL)
    assert found is not None
    title, _, *told = as_text(found).splitlines()
    assert title == found["title"]
    assert told == [
        "- no such city (× 3)",
        "  group_found shop/7, 2026-01-31T10:00:00+00:00",
        "- shop fills the desk",
        "  desk_growing shop, 2026-01-31T10:00:00+00:00",
    ]
    assert as_text(trial())


@given(st.text())
def test_a_line_stays_one_line(text: str) -> None:
    """A title comes from a record: it must not end a header or turn the letters around."""
    shown = one_line(text)
    assert shown.isprintable() or shown == ""
    assert len(shown.splitlines()) <= 1


def test_the_signature_is_that_of_standard_webhooks() -> None:
    """The example of https://github.com/standard-webhooks/standard-webhooks, worked out here once more."""
    secret = "whsec_" + base64.b64encode(b"a secret of 24 bytes !!!").decode()
    body = b'{"event_type":"ping"}'
    expected = hmac.new(b"a secret of 24 bytes !!!", b"msg_1.1674087231." + body, hashlib.sha256).digest()
    assert sign(secret, "msg_1", 1674087231, body) == "v1," + base64.b64encode(expected).decode()


def test_secrets_are_text_or_base64() -> None:
    assert key_of("plain text, 16 or more") == b"plain text, 16 or more"
    with pytest.raises(BadSettings) as caught:
        key_of("whsec_*not*base64*")
    assert "*not*" not in str(caught.value)


def test_pauses_double_up_to_an_hour() -> None:
    assert [pause_s(tries) for tries in (1, 2, 3, 4)] == [5, 10, 20, 40]
    assert pause_s(100) == LONGEST_PAUSE_S


HOOK = {"name": "ops", "url": "https://hooks.example/x", "secret": "s" * 16}


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"webhooks": [{**HOOK, "secret": "short"}]}, "webhooks.0.secret"),
        ({"webhooks": [{**HOOK, "url": "ftp://x"}]}, "webhooks.0.url"),
        ({"webhooks": [{**HOOK, "url": "https://user:pass@x"}]}, "webhooks.0.url"),
        ({"webhooks": [{**HOOK, "name": "Ops!"}]}, "webhooks.0.name"),
        ({"webhooks": [{**HOOK, "kinds": ["everything"]}]}, "webhooks.0.kinds.0"),
        ({"webhooks": [HOOK, HOOK]}, "two targets have the same name"),
        ({"emails": [{"name": "x", "to": ["a@b"]}]}, "set notify.smtp.host"),
        ({"emails": [{"name": "x", "to": ["a@b\nBcc: c@d"]}], "smtp": {"host": "x"}}, "emails.0.to.0"),
        ({"emails": [{"name": "x", "to": []}], "smtp": {"host": "x"}}, "emails.0.to"),
    ],
)
def test_settings_that_cannot_be_used(section: dict[str, Any], said: str) -> None:
    with pytest.raises(BadSettings) as caught:
        load({"notify": section})
    assert said in str(caught.value)
    assert "short" not in str(caught.value)
    assert "pass@" not in str(caught.value)


def test_settings_do_not_show_secrets() -> None:
    settings = load({"notify": {"webhooks": [HOOK], "smtp": {"password": "hunter2"}}})
    assert "ssss" not in repr(settings)
    assert "hunter2" not in repr(settings)


def test_a_certificate_file_that_is_none(tmp_path: Any) -> None:
    (tmp_path / "empty.pem").write_text("nothing")
    for name in ("missing.pem", "empty.pem"):
        with pytest.raises(BadSettings, match=r"notify\.ca_file"):
            tls(str(tmp_path / name))
