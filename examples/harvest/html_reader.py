"""Reading HTML as it comes: bytes in a charset that may not be the one they say, tags that may not be closed."""

from __future__ import annotations

import re
from html.parser import HTMLParser

NOT_READ = frozenset({"head", "nav", "noscript", "script", "style", "template"})
BREAKS_OFF = frozenset({"body", "main"})  # whoever begins these is out of the head, closed or not
LOOKED_AT = 1024  # bytes in which a page says its charset, and a picture shows that it is none

_CHARSET = re.compile(rb"""charset\s*=\s*["']?\s*([a-zA-Z0-9_:.-]{1,40})""", re.IGNORECASE)
_SPACE = re.compile(r"\s+")


class NotHtml(ValueError):
    """These bytes are no page, whatever they were called."""


class Reading(HTMLParser):
    """What is on a page: its title, its text, its language and where it leads."""

    def __init__(self, markup: str) -> None:
        super().__init__(convert_charrefs=True)
        self.links: list[str] = []
        self.language: str | None = None
        self._title: list[str] = []
        self._text: list[str] = []
        self._open: list[str] = []  # of what is not read
        self._is_title = False
        self.feed(markup)
        self.close()

    @property
    def title(self) -> str:
        return _joined(self._title)

    @property
    def text(self) -> str:
        return _joined(self._text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attributes if value is not None}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "html":
            self.language = given.get("lang")
        if tag == "title" and not self._title:
            self._is_title = True
        elif tag in BREAKS_OFF:
            self._open.clear()
            self._is_title = False
        elif tag in NOT_READ:
            self._open.append(tag)
        self._text.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._is_title = False
        if tag in self._open:
            del self._open[self._open.index(tag) :]
        self._text.append(" ")

    def handle_data(self, data: str) -> None:
        if self._is_title:
            self._title.append(data)
        elif not self._open:
            self._text.append(data)


def read_html(body: bytes, content_type: str = "") -> Reading:
    """What is on the page; raises `NotHtml`."""
    if b"\x00" in body[:LOOKED_AT]:
        raise NotHtml("there are bytes in it that no page has")
    return Reading(decoded(body, content_type))


def decoded(body: bytes, content_type: str) -> str:
    """The text of a page. What it says of its charset is tried first, and believed only if it fits."""
    for place in (content_type.encode(errors="replace"), body[:LOOKED_AT], b"charset=utf-8", b"charset=windows-1252"):
        said = _CHARSET.search(place)
        if said is not None:
            try:
                return body.decode(said[1].decode())
            except (LookupError, ValueError):
                continue
    return body.decode(errors="replace")


def _joined(parts: list[str]) -> str:
    return _SPACE.sub(" ", "".join(parts)).strip()
