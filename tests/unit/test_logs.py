"""Log lines for people and for collectors, and never a password in them."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

import pytest

from towpath.core.events import Event, EventKind
from towpath.core.logs import configure, log_event, without_password
from towpath.settings import LoggingSettings

EVENT = Event(EventKind.MESSAGE_EDITED, "m-1", "ada", "typo", {"was": "NEW"})


def test_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    configure(LoggingSettings(format="json"))
    logging.getLogger("towpath.queue").info("claimed %d", 3, extra={"inbox": "a", "n": 3})
    log_event(EVENT)
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    at = datetime.fromisoformat(first.pop("at"))
    assert at.tzinfo == UTC
    assert first == {"level": "info", "logger": "towpath.queue", "text": "claimed 3", "inbox": "a", "n": 3}
    second.pop("at")
    assert second == {
        "level": "info",
        "logger": "towpath.event",
        "text": "message_edited m-1",
        "who": "ada",
        "why": "typo",
        "data": {"was": "NEW"},
    }


def test_text_lines(capsys: pytest.CaptureFixture[str]) -> None:
    configure(LoggingSettings(format="text"))
    logging.getLogger("towpath.queue").warning("claimed %d", 3, extra={"inbox": "a"})
    at, rest = capsys.readouterr().err.split(" ", 1)
    assert datetime.fromisoformat(at).tzinfo == UTC
    assert rest == "WARNING towpath.queue: claimed 3 inbox=a\n"


@pytest.mark.parametrize("shape", ["text", "json"])
def test_traces_are_kept_and_passwords_hidden(capsys: pytest.CaptureFixture[str], shape: str) -> None:
    configure(LoggingSettings.model_validate({"format": shape}))
    try:
        raise RuntimeError("cannot reach postgresql://ada:hunter2@db:5432/x")
    except RuntimeError:
        logging.getLogger("towpath").exception("at postgresql://ada:hunter2@db/x")
    written = capsys.readouterr().err
    assert "hunter2" not in written
    assert written.count("ada:***@db") == 3  # the text, the error and the source line that raised it
    assert "Traceback" in written
    if shape == "json":
        assert "Traceback" in json.loads(written)["trace"]


@pytest.mark.parametrize("shape", ["text", "json"])
def test_passwords_in_extra_values_are_hidden(capsys: pytest.CaptureFixture[str], shape: str) -> None:
    configure(LoggingSettings.model_validate({"format": shape}))
    logging.getLogger("towpath").info("connected", extra={"url": "postgresql://ada:hunter2@db/x"})
    assert "hunter2" not in capsys.readouterr().err


def test_level_is_obeyed_and_configuring_again_replaces(capsys: pytest.CaptureFixture[str]) -> None:
    configure(LoggingSettings(level="error"))
    configure(LoggingSettings(level="warning"))
    logger = logging.getLogger("towpath.x")
    logger.info("not shown")
    logger.warning("shown")
    assert capsys.readouterr().err.count("shown") == 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://u:p@h/d", "postgresql://u:***@h/d"),
        ("postgresql://u@h/d", "postgresql://u@h/d"),
        ("postgresql://h:5432/d", "postgresql://h:5432/d"),
        ("postgresql://u:p%40:x@h/d", "postgresql://u:***@h/d"),
        ("postgresql://u:p@ss@h/d", "postgresql://u:***@h/d"),
        ("postgresql://u:p/w@h/d", "postgresql://u:***@h/d"),
        ("a postgresql://u:p@h/d and http://x:y@z", "a postgresql://u:***@h/d and http://x:***@z"),
        ("sqlite:////a/b.db", "sqlite:////a/b.db"),
    ],
)
def test_without_password(text: str, shown: str) -> None:
    assert without_password(text) == shown


@pytest.mark.parametrize("text", ["postgresql://:p@h/d", "postgresql://h/d?user=u&password=hunter2"])
def test_passwords_in_unusual_places(text: str) -> None:
    hidden = without_password(text)
    assert ":p@" not in hidden
    assert "hunter2" not in hidden
