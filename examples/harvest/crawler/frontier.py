"""Which addresses a crawl has to visit, level by level. Pure: worked out from what was visited, and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from examples.harvest.crawler.address import host_of
from examples.harvest.crawler.limits import Limits
from examples.harvest.crawler.visit import Visit


class Frontier:
    """Breadth first: an address is as deep as its shortest way from a start. Which visit came first does not matter."""

    def __init__(
        self, hosts: Iterable[str], starts: Mapping[str, int], limits: Limits, allows: Callable[[str], bool]
    ) -> None:
        """`starts` are addresses with their depth: front pages at 0, pages of the last time as deep as they were."""
        self._hosts = frozenset(hosts)
        self._starts = starts
        self._limits = limits
        self._allows = allows
        self._pages: Counter[str] = Counter()
        self.accepted: dict[str, int] = {}
        self.disallowed: set[str] = set()
        self.left_out: set[str] = set()  # the site had its share already

    def level(self, depth: int, visits: Mapping[str, Visit]) -> list[str]:
        """The addresses of a level, in order. All levels above it must have been asked for, and been visited."""
        links = {
            link
            for url, above in self.accepted.items()
            if above == depth - 1
            for link in (visits[url].links if url in visits else ())
        }
        links |= {url for url, known in self._starts.items() if known == depth}
        return [url for url in sorted(links) if self._accepts(url, depth)]

    def levels(self) -> range:
        return range(self._limits.max_depth + 1)

    def _accepts(self, url: str, depth: int) -> bool:
        host = host_of(url)
        if host not in self._hosts or url in self.accepted:
            return False
        if not self._allows(url):
            self.disallowed.add(url)
            return False
        if self._pages[host] >= self._limits.max_pages:
            self.left_out.add(url)
            return False
        self._pages[host] += 1
        self.accepted[url] = depth
        return True
