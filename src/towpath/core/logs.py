"""Structured logs: one line an entry, as text for people or as JSON for collectors."""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime

from towpath.core.events import Event
from towpath.settings import LoggingSettings

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
_PASSWORD = re.compile(r"""(://[^:/@\s]*):[^\s"]+@|([?&\s]password=)[^&\s'"]+""")


def without_password(text: str) -> str:
    """The text with the password of any URL in it replaced."""
    return _PASSWORD.sub(lambda m: f"{m[1]}:***@" if m[2] is None else f"{m[2]}***", text)


class _Line(logging.Formatter):
    """One log entry as one line; values given by `extra=` follow the text."""

    def __init__(self, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        fields = {key: value for key, value in vars(record).items() if key not in _STANDARD}
        at = datetime.fromtimestamp(record.created, tz=UTC).isoformat(timespec="milliseconds")
        text = without_password(record.getMessage())
        trace = without_password(self.formatException(record.exc_info)) if record.exc_info else None
        if self._as_json:
            entry = {"at": at, "level": record.levelname.lower(), "logger": record.name, "text": text, **fields}
            return without_password(json.dumps(entry | ({"trace": trace} if trace else {}), default=str))
        behind = without_password("".join(f" {key}={value}" for key, value in fields.items()))
        text, behind = text.translate(_CONTROLS), behind.translate(_CONTROLS)  # or they could forge entries
        return f"{at} {record.levelname:<7} {record.name}: {text}{behind}" + (f"\n{trace}" if trace else "")


def configure(settings: LoggingSettings) -> None:
    """Send Towpath's log entries to standard error in the chosen shape. Calling it again replaces the first."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Line(as_json=settings.format == "json"))
    logger = logging.getLogger("towpath")
    logger.handlers = [handler]
    logger.propagate = False
    logger.setLevel(settings.level.upper())


def log_event(event: Event) -> None:
    """A subscriber that writes each event to the log."""
    logging.getLogger("towpath.event").info(
        "%s %s", event.kind, event.subject, extra={"who": event.who, "why": event.why, "data": dict(event.data)}
    )
