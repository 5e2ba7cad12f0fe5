"""The addresses at which something is wrong."""

from __future__ import annotations

from dataclasses import dataclass

from examples.harvest.web.page import HTML, Answer, Page, Told

HUGE_BYTES = 8 << 20


@dataclass(frozen=True)
class Nothing(Page):
    """An address at which there is nothing to read."""

    def told_on(self, day: int) -> Told | None:
        return None


@dataclass(frozen=True)
class Redirect(Nothing):
    """Sends its visitors elsewhere."""

    status: int = 301

    def answer(self, day: int, visits: int) -> Answer:
        return Answer(self.status, b"over there", {"Location": self.links[0]})


@dataclass(frozen=True)
class Ill(Page):
    """Fails for the first visitors and is well again after that."""

    failures: int = 2

    def answer(self, day: int, visits: int) -> Answer:
        if visits < self.failures:
            return Answer(500, b"not feeling well", {"Content-Type": "text/plain"})
        return super().answer(day, visits)


@dataclass(frozen=True)
class Status(Nothing):
    """The same bad answer to everybody."""

    status: int = 500

    def answer(self, day: int, visits: int) -> Answer:
        return Answer(self.status, b"<html><body>no</body></html>", {"Content-Type": HTML})

    def links_on(self, day: int) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True)
class Broken(Page):
    """Tags that nobody closed, attributes without quotes, an end that never comes; people read it all the same."""

    def markup(self, day: int) -> str:
        anchors = "".join(f"<li><A HREF={link}>{link}" for link in self.links)
        text = self._text(day).replace("\n", "<p>")
        return (
            f"<html lang={self.language}><title>{self.title}</title><nav><ul>{anchors}</ul></nav></div></b><main>"
            f"<h1><b>{self.title}</h1><p class=x>{text}<br><img src=x.png>"
        )


@dataclass(frozen=True)
class WrongCharset(Page):
    """Says UTF-8 and is Latin-1."""

    def body(self, day: int) -> bytes:
        return self.markup(day).encode("latin-1")


@dataclass(frozen=True)
class Huge(Nothing):
    """More than anybody wants."""

    def answer(self, day: int, visits: int) -> Answer:
        return Answer(200, b"<html><body>" + b"more and more " * (HUGE_BYTES // 14), {"Content-Type": HTML})


@dataclass(frozen=True)
class Slow(Page):
    """Comes in small pieces: in time, if one waits a little."""

    drip_s: float = 0.05

    def answer(self, day: int, visits: int) -> Answer:
        told = super().answer(day, visits)
        return Answer(told.status, told.body, told.headers, self.drip_s)


@dataclass(frozen=True)
class Endless(Nothing):
    """Comes in small pieces, and never to an end."""

    def answer(self, day: int, visits: int) -> Answer:
        return Answer(200, b"<html><body>" + b"wait " * 100_000, {"Content-Type": HTML}, 0.05)


@dataclass(frozen=True)
class Picture(Nothing):
    """A picture, which says so or says that it is a page."""

    content_type_said: str = "image/png"

    def answer(self, day: int, visits: int) -> Answer:
        body = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(range(256)) * 4
        return Answer(200, body, {"Content-Type": self.content_type_said, "ETag": '"picture"'})
