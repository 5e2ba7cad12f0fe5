"""What must be in the table, worked out from the definition of the web alone: nothing is fetched, parsed or loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

from examples.harvest.crawler.limits import Limits
from examples.harvest.web.page import Page
from examples.harvest.web.sites import Site


class Expected(NamedTuple):
    """A document as it must be."""

    url: str
    site: str
    title: str
    text: str
    language: str
    links: tuple[str, ...]


class Oracle:
    """Follows the crawls of a test, by day and site."""

    def __init__(self, sites: Mapping[str, Site], limits: Limits | None = None) -> None:
        self._sites = sites
        self._limits = limits or Limits()
        self._known: dict[str, int] = {}  # pages that were there the last time, with their depth
        self._documents: dict[str, Expected] = {}

    @property
    def documents(self) -> list[Expected]:
        """All of them, by address."""
        return [self._documents[url] for url in sorted(self._documents)]

    def crawl(self, day: int, hosts: Sequence[str] = ()) -> None:
        """These sites, or all, are crawled on that day, and what was found is loaded."""
        wanted = tuple(hosts) or tuple(self._sites)
        depths = self._visited(day, wanted)
        for url, depth in depths.items():
            page = self._page(url)
            if page is None or day not in page.days:
                self._known.pop(url, None)
                self._documents.pop(url, None)
                continue
            told = page.told_on(day)
            if told is not None:
                self._known[url] = depth
                links = tuple(sorted(set(_addresses(url, page.links_on(day)))))
                self._documents[url] = Expected(url, _host(url), told.title, told.text, told.language, links)

    def _visited(self, day: int, hosts: Sequence[str]) -> dict[str, int]:
        """What is reached within so many links, and what was known, each at its least depth."""
        levels: dict[int, set[str]] = {0: {f"http://{host}/" for host in hosts}}
        for url, depth in self._known.items():
            levels.setdefault(depth, set()).add(url)
        found: dict[str, int] = {}
        for depth in range(self._limits.max_depth + 1):
            for url in sorted(levels.get(depth, ())):
                if _host(url) in hosts and url not in found and self._is_allowed(url):
                    found[url] = depth
                    page = self._page(url)
                    links = () if page is None else page.links_on(day)
                    levels.setdefault(depth + 1, set()).update(_addresses(url, links))
        return found

    def _page(self, url: str) -> Page | None:
        return self._sites[_host(url)].pages.get(urlsplit(url).path)

    def _is_allowed(self, url: str) -> bool:
        rules = (self._sites[_host(url)].robots or "").splitlines()
        forbidden = [line.partition(":")[2].strip() for line in rules if line.startswith("Disallow:")]
        return not any(urlsplit(url).path.startswith(path) for path in forbidden)


def _addresses(url: str, links: Iterable[str]) -> Iterable[str]:
    """As the web writes them: its few odd ones, spelt out."""
    for link in links:
        if not link.startswith(("mailto:", "javascript:", "http://[")):
            parts = urlsplit(urljoin(url, link))
            yield f"http://{(parts.hostname or '').lower()}{parts.path}"


def _host(url: str) -> str:
    return urlsplit(url).netloc
