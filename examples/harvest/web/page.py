"""One address of the web: what a visitor gets there, and what is worth reading of it."""

from __future__ import annotations

import hashlib
import html
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

FIRST_DAY = datetime(2026, 3, 1, tzinfo=UTC)
HTML = "text/html; charset=utf-8"


@dataclass(frozen=True)
class Answer:
    """What the server sends. `drip_s`: so long between two pieces of the body."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    drip_s: float = 0.0


@dataclass(frozen=True)
class Told:
    """What a reader should find on a page."""

    title: str
    text: str
    language: str


@dataclass(frozen=True)
class Page:
    """A page of text with links. Its text changes on the second day if there is a `later` one."""

    path: str
    title: str
    text: str
    language: str = "en"
    links: tuple[str, ...] = ()
    later: str | None = None
    days: range = range(1, 1000)  # on which it is there
    validators: str = "both"  # "etag", "date", "both" or "none"

    def answer(self, day: int, visits: int) -> Answer:
        """What a visitor gets; `visits` were there before."""
        if day not in self.days:
            return Answer(404, b"no such page", {"Content-Type": "text/plain"})
        body = self.body(day)
        headers = {"Content-Type": self.content_type}
        if self.validators in ("etag", "both"):
            headers["ETag"] = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
        if self.validators in ("date", "both"):
            changed = 1 if self.later is None or day < 2 else 2
            headers["Last-Modified"] = format_datetime(FIRST_DAY + timedelta(days=changed), usegmt=True)
        return Answer(200, body, headers)

    @property
    def content_type(self) -> str:
        return HTML

    def body(self, day: int) -> bytes:
        return self.markup(day).encode()

    def markup(self, day: int) -> str:
        anchors = "\n".join(f'<li><a href="{html.escape(link)}">{link}</a></li>' for link in self.links)
        paragraphs = "</p>\n<p>".join(map(html.escape, self._text(day).split("\n")))
        return (
            f'<!doctype html>\n<html lang="{self.language}">\n<head><meta charset="utf-8">'
            f"<title>{html.escape(self.title)}</title>\n<style>body {{ color: #123 }}</style>"
            f"<script>let words = 'not to be read';</script></head>\n<body>\n<nav><ul>\n{anchors}\n</ul></nav>\n"
            f"<main><h1>{html.escape(self.title)}</h1>\n<p>{paragraphs}</p></main>\n</body></html>\n"
        )

    def _text(self, day: int) -> str:
        return self.later if self.later is not None and day >= 2 else self.text

    # What is expected of whoever reads it

    def links_on(self, day: int) -> tuple[str, ...]:
        """Where a visitor can go from here."""
        return self.links if day in self.days else ()

    def told_on(self, day: int) -> Told | None:
        """What a reader should find; none where there is nothing to read."""
        if day not in self.days:
            return None
        return Told(self.title, " ".join(f"{self.title} {self._text(day)}".split()), self.language)
