"""A crawl of some sites: several at once, each at its own pace, level by level."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from examples.harvest.crawler.address import host_of
from examples.harvest.crawler.fetcher import Fetcher
from examples.harvest.crawler.frontier import Frontier
from examples.harvest.crawler.journal import Journal, read_visits
from examples.harvest.crawler.limits import Limits
from examples.harvest.crawler.robots import Rules
from examples.harvest.crawler.visit import Outcome, Visit

Told = Callable[[int, int], None]  # how many are visited, of how many that are known


class Crawl:
    """Writes the visits of each site into its directory, and goes on where an earlier one was cut off."""

    def __init__(
        self,
        directories: Mapping[str, Path],
        before: Mapping[str, Path],
        limits: Limits,
        connect_to: Mapping[str, str],
        tell: Told = lambda visited, known: None,
    ) -> None:
        """`directories` by host; `before` has those of the last time, for sites that were visited then."""
        self._directories = directories
        self._before = {
            visit.url: visit for directory in before.values() for visit in read_visits(directory) if visit.has_body
        }
        self._limits = limits
        self._fetcher = Fetcher(limits, connect_to)
        self._tell = tell
        self._next_at: dict[str, float] = {}

    def run(self) -> dict[str, dict[str, Visit]]:
        """Visit everything; returns the visits by host."""
        journals = {host: Journal(directory) for host, directory in sorted(self._directories.items())}
        try:
            with ThreadPoolExecutor(len(journals), thread_name_prefix="site") as pool:
                rules = dict(zip(journals, pool.map(self._rules, journals, journals.values()), strict=True))
                self._visit_all(pool, journals, rules)
            for host, journal in journals.items():
                if not rules[host].is_answered:
                    self._keep_all(host, journal)
            return {host: journal.visits for host, journal in journals.items()}
        finally:
            for journal in journals.values():
                journal.close()

    def _rules(self, host: str, journal: Journal) -> Rules:
        known = journal.robots()
        if known is None:
            known = self._fetcher.robots(host)
            journal.keep_robots(*known)
        rules = Rules.of(*known, self._limits)
        # The last visit may have been a moment ago, by one that was killed.
        self._next_at[host] = time.monotonic() + rules.delay_s
        return rules

    def _keep_all(self, host: str, journal: Journal) -> None:
        """A site that is away has not lost its pages: the next crawl will ask for them."""
        for url, before in sorted(self._before.items()):
            if host_of(url) == host and url not in journal.visits:
                journal.write(replace(before, outcome=Outcome.KEPT, status=None, reason="the site is away"))

    def _visit_all(self, pool: ThreadPoolExecutor, journals: Mapping[str, Journal], rules: Mapping[str, Rules]) -> None:
        starts = {url: visit.depth for url, visit in self._before.items()}
        starts |= {f"http://{host}/": 0 for host in journals}
        frontier = Frontier(journals, starts, self._limits, lambda url: rules[host_of(url)].allows(url))
        for depth in frontier.levels():
            visits = {url: visit for journal in journals.values() for url, visit in journal.visits.items()}
            level = [url for url in frontier.level(depth, visits) if url not in visits]
            self._known = len(frontier.accepted)
            self._visited = self._known - len(level)
            work = [
                pool.submit(self._visit_site, [url for url in level if host_of(url) == host], depth, journal, rules)
                for host, journal in journals.items()
            ]
            for each in work:
                each.result()

    def _visit_site(self, urls: list[str], depth: int, journal: Journal, rules: Mapping[str, Rules]) -> None:
        for url in urls:
            host = host_of(url)
            time.sleep(max(0.0, self._next_at[host] - time.monotonic()))
            journal.write(self._fetcher.visit(url, depth, self._before.get(url), rules[host].delay_s))
            self._next_at[host] = time.monotonic() + rules[host].delay_s
            self._visited += 1
            self._tell(self._visited, self._known)
