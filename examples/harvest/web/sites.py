"""The sites: made of the texts beside this file, linked with each other, with something wrong at many corners."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from examples.harvest.web.odd_pages import (
    Broken,
    Endless,
    Huge,
    Ill,
    Picture,
    Redirect,
    Slow,
    Status,
    WrongCharset,
)
from examples.harvest.web.page import Page

TEXTS = Path(__file__).with_name("texts")
FIRST_DAY, SECOND_DAY = 1, 2
CALENDAR_PAGES = 40  # each leads to the next: a crawler needs a reason to stop
NEWS = "On the second day there is news: the keeper of the lower lock has a dog now, and the dog is called Paddle."


@dataclass(frozen=True)
class Site:
    """One host of the web: its rules for robots, and its pages by path."""

    host: str
    robots: str | None
    pages: Mapping[str, Page]

    def url(self, path: str) -> str:
        return f"http://{self.host}{path}"


def small_web() -> dict[str, Site]:
    """All sites, by host. The same every time."""
    return {site.host: site for site in (_canal(), _boote(), _chemin(), _private())}


def _canal() -> Site:
    host = "canal.test"
    texts = _texts(host, "en", {"winter": NEWS, "horses": "Horses are back on the towpath. A society walks them."})
    odd = [
        Page(
            "/",
            "The canal society",
            "Everything about the canal, the boats and the people who live with the water.",
            links=(
                *(f"/{page.path[1:]}" for page in texts[:3]),
                "/old-news",
                "/loop-a",
                "/missing",
                "/ill",
                "/always-ill",
                "/private/letters",
                "calendar/1",
                "http://boote.test/",
                "mailto:society@canal.test",
                "javascript:void(0)",
                "http://[broken/",
                "http://elsewhere.test/not-ours",
            ),
        ),
        Redirect("/old-news", "", "", links=("/news",)),
        Page("/news", "News", "The summer opening is in May. The society meets on the first Monday.", later=NEWS),
        Redirect("/loop-a", "", "", links=("/loop-b",), status=302),
        Redirect("/loop-b", "", "", links=("/loop-a",), status=302),
        Ill("/ill", "The pump house", "The pump is being repaired, and so is this page.", links=("/",)),
        Status("/always-ill", "", ""),
        Page("/private/letters", "Letters", "Nobody should find these.", days=range(1, 1000)),
        Page(
            "/only-now",
            "A guest for one day",
            "This page is here on the first day and gone on the second.",
            days=range(1, 2),
        ),
        Page(
            "/tomorrow", "The new bridge", "The bridge was opened on the second day of the month.", days=range(2, 1000)
        ),
    ]
    robots = "User-agent: *\nDisallow: /private/\nRequest-rate: 40/1\n"
    return _site(host, robots, [*odd, *texts, *_calendar()], extra={"/keepers": ("/only-now", "/tomorrow")})


def _boote() -> Site:
    host = "boote.test"
    texts = _texts(host, "de", {"hafen": "Der Hafen ist leer, und das Eis ist dick. Wer noch da ist, der bleibt."})
    odd = [
        Page(
            "/",
            "Boote und Schiffe",
            "Alles über die Boote auf dem Kanal und die Leute, die mit dem Wasser leben.",
            "de",
            links=(
                *(page.path for page in texts[:2]), "/kaputt", "/latin", "/riesig", "/langsam", "/endlos",
                "/bild.png", "/kein-html", "//chemin.test/", "./hafen#morgen", "/hafen?", "http://BOOTE.test:80/lampen",
            ),
        ),
        Broken("/kaputt", "Ein kaputter Kahn", "Der Kahn ist leck, und die Seite ist es auch.\nMan liest sie.", "de",
               links=("/nur-von-hier",)),
        Page("/nur-von-hier", "Am Ende des Stegs", "Diese Seite ist nur von dem kaputten Kahn zu erreichen.", "de"),
        WrongCharset("/latin", "Über die Brücke", "Die Brücke über die Mühle ist schön, und das Wasser ist süß.", "de",
                     validators="date"),
        Huge("/riesig", "", ""),
        Slow("/langsam", "Das langsame Boot", "Das Boot ist langsam, aber es kommt an.", "de"),
        Endless("/endlos", "", ""),
        Picture("/bild.png", "", ""),
        Picture("/kein-html", "", "", content_type_said="text/html"),
    ]  # fmt: skip
    return _site(host, "User-agent: *\nRequest-rate: 40/1\n", [*odd, *texts])


def _chemin() -> Site:
    """A site that wants to be visited slowly."""
    host = "chemin.test"
    texts = _texts(host, "fr", {})[:3]
    front = Page("/", "Le chemin", "Le chemin le long du canal, avec les ponts et les écluses.", "fr",
                 links=(texts[0].path, "http://canal.test/aqueducts"))  # fmt: skip
    return _site(host, "User-agent: *\nCrawl-delay: 1\n", [front, *texts])


def _private() -> Site:
    """A site that wants no robots at all."""
    page = Page("/", "A private house", "Please do not come in.", links=("/cellar",))
    return _site("private.test", "User-agent: *\nDisallow: /\n", [page])


def _calendar() -> Iterable[Page]:
    for number in range(1, CALENDAR_PAGES + 1):
        title = f"Calendar, page {number}"
        text = f"Nothing happens on page {number} of the calendar, and there is always a next page."
        yield Page(f"/calendar/{number}", title, text, links=(str(number + 1),), validators="none")


def _texts(host: str, language: str, later: Mapping[str, str]) -> list[Page]:
    """The pages of a text file: each leads to the next one, and home."""
    lines = (TEXTS / f"{host}.txt").read_text(encoding="utf-8").splitlines()
    cut = [[part.strip() for part in line.split("|")] for line in lines]
    return [
        Page(
            f"/{slug}",
            title,
            text,
            language,
            links=("/", f"/{cut[(at + 1) % len(cut)][0]}"),
            later=later.get(slug),
            validators=("both", "etag", "date")[at % 3],
        )
        for at, (slug, title, text) in enumerate(cut)
    ]


def _site(
    host: str, robots: str | None, pages: Iterable[Page], extra: Mapping[str, tuple[str, ...]] | None = None
) -> Site:
    more = extra or {}
    named = [replace(page, links=(*page.links, *more.get(page.path, ()))) for page in pages]
    return Site(host, robots, {page.path: page for page in named})
