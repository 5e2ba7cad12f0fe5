"""The crawler of the example: polite, bounded, and after any cut the same as without."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from examples.harvest.crawler.address import absolute
from examples.harvest.crawler.crawl import Crawl
from examples.harvest.crawler.fetcher import Fetcher
from examples.harvest.crawler.frontier import Frontier
from examples.harvest.crawler.journal import VISITS, Journal, read_visits
from examples.harvest.crawler.limits import Limits
from examples.harvest.crawler.robots import Rules
from examples.harvest.crawler.visit import Outcome, Visit, counted
from examples.harvest.web.odd_pages import Ill, Status
from examples.harvest.web.page import Page
from examples.harvest.web.server import SmallWeb
from examples.harvest.web.sites import Site, small_web
from hypothesis import given
from hypothesis import strategies as st

from towpath.stack.daemon import free_port

# A machine that stands still for a while makes no page too slow.
QUICK = Limits(deadline_s=60.0, retry_s=0.01, delay_s=0.0, patience_s=0.0)


def site(host: str, *pages: Page, robots: str | None = None) -> Site:
    return Site(host, robots, {page.path: page for page in pages})


def crawl(
    web: SmallWeb, home: Path, before: Mapping[str, Path] | None = None, limits: Limits = QUICK
) -> dict[str, Visit]:
    """All sites of a web into directories of one home."""
    directories = {host: home / host for host in web.sites}
    for directory in directories.values():
        directory.mkdir(parents=True, exist_ok=True)
    found = Crawl(directories, before or {}, limits, dict.fromkeys(web.sites, web.address)).run()
    return {url: visit for visits in found.values() for url, visit in visits.items()}


# Addresses and rules


@pytest.mark.parametrize(
    ("link", "address"),
    [
        ("/b", "http://a.test/b"),
        ("c?x=1#part", "http://a.test/d/c?x=1"),
        ("HTTP://A.TEST:80/b", "http://a.test/b"),
        ("//other.test", "http://other.test/"),
        ("http://a.test:8080/x", "http://a.test:8080/x"),
        (" /with space ", "http://a.test/with%20space"),
        ("/ä", "http://a.test/%C3%A4"),
        ("/%C3%A4", "http://a.test/%C3%A4"),
        ("mailto:x@a.test", None),
        ("javascript:void(0)", None),
        ("http://[broken/", None),
        ("http://a.test:99999/", None),
        ("http://user:secret@a.test/", None),
        ("ftp://a.test/", None),
        ("/" + "x" * 3000, None),
    ],
)
def test_addresses_have_one_spelling(link: str, address: str | None) -> None:
    assert absolute(link, "http://a.test/d/e") == address


@pytest.mark.parametrize(
    ("status", "text", "allowed", "delay_s"),
    [
        (200, "User-agent: *\nDisallow: /private/\nCrawl-delay: 3\n", True, 3.0),
        (200, "User-agent: *\nRequest-rate: 10/1\n", True, 0.1),
        (200, "User-agent: towpath-harvest\nDisallow: /\n", False, 0.0),
        (200, "User-agent: *\nCrawl-delay: 9999\n", True, 30.0),
        (200, "\x00\xff nonsense", True, 0.0),
        (404, "", True, 0.0),
        (None, "", False, 0.0),
    ],
)
def test_rules_of_a_site(status: int | None, text: str, allowed: bool, delay_s: float) -> None:
    rules = Rules.of(status, text, QUICK)
    assert rules.allows("http://a.test/x") is allowed
    assert rules.delay_s == delay_s
    if "/private/" in text:
        assert not rules.allows("http://a.test/private/x")


# Which addresses


@given(
    st.dictionaries(st.integers(0, 12), st.frozensets(st.integers(0, 12), max_size=4)),
    st.integers(0, 4),
    st.integers(1, 8),
)
def test_levels_do_not_depend_on_the_order_of_visits(
    links: dict[int, frozenset[int]], max_depth: int, max_pages: int
) -> None:
    """What was visited before a cut is found again; the levels are those of a search in breadth."""
    limits = Limits(max_depth=max_depth, max_pages=max_pages)

    def url(number: int) -> str:
        return f"http://{'ab'[number % 2]}.test/{number:02}"

    def visits(numbers: set[int]) -> dict[str, Visit]:
        return {
            url(each): Visit(url(each), 0, Outcome.FETCHED, links=tuple(map(url, sorted(links.get(each, ())))))
            for each in numbers
        }

    def frontier() -> Frontier:
        return Frontier(["a.test", "b.test"], {url(0): 0, url(1): 0}, limits, lambda url: True)

    everything = visits(set(range(13)))
    whole, again = frontier(), frontier()
    seen: dict[str, Visit] = {}
    for depth in whole.levels():
        level = whole.level(depth, everything)
        assert again.level(depth, seen) == level, "known from the visits of the levels above alone"
        seen |= {each: everything[each] for each in level}
    hosts = [each.split("/")[2] for each in whole.accepted]
    assert all(hosts.count(host) <= max_pages for host in hosts)
    for each, depth in whole.accepted.items():
        above = [up for up in whole.accepted if each in everything[up].links and whole.accepted[up] == depth - 1]
        assert depth == 0 or above, "each has a way from a front page, of its depth"


# Writing down


def test_a_journal_cut_off_at_any_byte(tmp_path: Path) -> None:
    first, second = (Visit(f"http://a.test/{n}", n, Outcome.FETCHED, 200, body=b"\x00\n\xff") for n in (1, 2))
    whole = first.line() + second.line()
    for cut in range(len(whole) + 1):
        (tmp_path / VISITS).write_bytes(whole[:cut])
        with Journal(tmp_path) as journal:
            kept = [first, second][: (cut >= len(first.line())) + (cut == len(whole))]
            assert list(journal.visits.values()) == kept
            journal.write(second)
        assert list(read_visits(tmp_path)) == [*kept, second]


@pytest.mark.parametrize("junk", [b"\x00" * 50 + b"\n", b"{}\n", b"[1]\n", b'{"url": "x"}\n'])
def test_a_journal_with_a_line_that_is_none(tmp_path: Path, junk: bytes) -> None:
    first = Visit("http://a.test/", 0, Outcome.GONE, 404)
    (tmp_path / VISITS).write_bytes(first.line() + junk)
    with Journal(tmp_path) as journal:
        assert list(journal.visits.values()) == [first]
    assert (tmp_path / VISITS).read_bytes() == first.line()


def test_a_second_writer_waits_for_the_first(tmp_path: Path) -> None:
    first = Journal(tmp_path)
    opened: list[Journal] = []
    second = threading.Thread(target=lambda: opened.append(Journal(tmp_path)))
    second.start()
    first.write(Visit("http://a.test/", 0, Outcome.GONE, 404))
    assert opened == []
    first.close()
    second.join(30)
    assert list(opened[0].visits) == ["http://a.test/"]
    opened[0].close()


# Over HTTP


def test_every_kind_of_page() -> None:
    web = SmallWeb(small_web())
    outcomes = {
        "http://canal.test/": Outcome.FETCHED,
        "http://canal.test/old-news": Outcome.REDIRECT,
        "http://canal.test/loop-a": Outcome.REDIRECT,
        "http://canal.test/missing": Outcome.GONE,
        "http://canal.test/ill": Outcome.FETCHED,
        "http://canal.test/always-ill": Outcome.FAILED,
        "http://boote.test/kaputt": Outcome.FETCHED,
        "http://boote.test/latin": Outcome.FETCHED,
        "http://boote.test/riesig": Outcome.TOO_BIG,
        "http://boote.test/endlos": Outcome.TOO_SLOW,
        "http://boote.test/bild.png": Outcome.NO_PAGE,
        "http://boote.test/kein-html": Outcome.FETCHED,
        "http://elsewhere.test/": Outcome.FAILED,
    }
    with web:
        connect_to = dict.fromkeys([*web.sites, "elsewhere.test"], web.address)
        patient, hurried = (Fetcher(limits, connect_to) for limits in (QUICK, replace(QUICK, deadline_s=1.0)))
        found = {
            url: (hurried if outcome is Outcome.TOO_SLOW else patient).visit(url, 0, None).outcome
            for url, outcome in outcomes.items()
        }
        assert found == outcomes
    assert web.visits["http://canal.test/ill"] == 3, "it was ill twice"
    assert web.visits["http://canal.test/always-ill"] == QUICK.attempts


def test_a_second_crawl_asks_whether_something_has_changed(tmp_path: Path) -> None:
    pages = [
        Page("/", "Home", "home", links=("/same", "/changed", "/dated", "/plain", "/gone")),
        Page("/same", "Same", "the same", validators="etag"),
        Page("/changed", "Changed", "before", later="after"),
        Page("/dated", "Dated", "the same", validators="date"),
        Page("/plain", "Plain", "the same", validators="none"),
        Page("/gone", "Gone", "here today", days=range(1, 2)),
    ]
    with SmallWeb({"a.test": site("a.test", *pages)}) as web:
        first = crawl(web, tmp_path / "1")
        web.day = 2
        second = crawl(web, tmp_path / "2", {"a.test": tmp_path / "1" / "a.test"})
    assert counted(first.values()) == {"fetched": 6}
    assert counted(second.values()) == {"fetched": 2, "not modified": 3, "gone": 1}
    assert web.not_modified == 3
    for path in ("same", "dated"):
        before, after = first[f"http://a.test/{path}"], second[f"http://a.test/{path}"]
        assert after == Visit(**{**vars(before), "outcome": Outcome.NOT_MODIFIED, "status": 304})
    assert b"after" in second["http://a.test/changed"].body
    assert second["http://a.test/gone"].body == b""


def test_a_page_that_cannot_be_had_stays(tmp_path: Path) -> None:
    well = Page("/", "Home", "home", validators="none")
    with SmallWeb({"a.test": site("a.test", well)}) as web:
        first = crawl(web, tmp_path / "1")
        web.sites = {"a.test": site("a.test", Status("/", "", "", status=503))}
        second = crawl(web, tmp_path / "2", {"a.test": tmp_path / "1" / "a.test"})
    [visit] = second.values()
    assert (visit.outcome, visit.status, visit.body) == (Outcome.KEPT, 503, first["http://a.test/"].body)


def test_a_crawl_that_is_cut_off_again_and_again(tmp_path: Path) -> None:
    """It ends with the same visits, and no page is asked for again that was written down."""
    hosts = ("a.test", "b.test")
    sites = {
        host: site(
            host,
            *(
                Page(f"/{n or ''}", f"Page {n}", f"text {n}", links=(f"/{n + 1}", f"/{n + 2}", f"http://{other}/{n}"))
                for n in range(6)
            ),
            Ill("/6", "Ill", "ill", failures=1),
        )
        for host, other in zip(hosts, hosts[::-1], strict=True)
    }
    with SmallWeb(sites) as web:
        whole = crawl(web, tmp_path / "whole")
    with SmallWeb(sites) as web:
        cuts = 0
        while True:
            left = 3

            def tell(visited: int, known: int) -> None:
                nonlocal left
                left -= 1
                if left < 0:
                    raise InterruptedError

            directories = {host: tmp_path / "cut" / host for host in sites}
            for directory in directories.values():
                directory.mkdir(parents=True, exist_ok=True)
            try:
                Crawl(directories, {}, QUICK, dict.fromkeys(sites, web.address), tell).run()
                break
            except InterruptedError:
                cuts += 1
        cut = {visit.url: visit for directory in directories.values() for visit in read_visits(directory)}
    assert cuts >= 3
    assert cut == whole
    assert {url: count for url, count in web.visits.items() if count > 1 and not url.endswith("/6")} == {}


def test_it_keeps_its_distance(tmp_path: Path) -> None:
    pages = [Page("/", "Home", "home", links=tuple(f"/{n}" for n in range(5)))]
    rules = "User-agent: *\nRequest-rate: 20/1\n"
    with SmallWeb({host: site(host, *pages, robots=rules) for host in ("a.test", "b.test")}) as web:
        started = time.monotonic()
        crawl(web, tmp_path)
        lasted_s = time.monotonic() - started
    for times in web.times.values():
        gaps = [after - before for before, after in pairwise(times)]
        assert min(gaps) > 0.045
    assert lasted_s < 2 * 6 * 0.05 + 10, "two sites at once"


def test_forbidden_pages_are_not_asked_for(tmp_path: Path) -> None:
    pages = [Page("/", "Home", "home", links=("/private/x", "/open")), Page("/open", "Open", "open")]
    rules = "User-agent: *\nDisallow: /private/\n"
    with SmallWeb({"a.test": site("a.test", *pages, robots=rules)}) as web:
        crawl(web, tmp_path)
    assert set(web.visits) == {"http://a.test/robots.txt", "http://a.test/", "http://a.test/open"}


def test_a_site_that_is_away_for_a_while_is_waited_for(tmp_path: Path) -> None:
    port = free_port()  # one that no client takes for its own end before the site is there
    fetcher = Fetcher(replace(QUICK, patience_s=60.0), {"a.test": f"127.0.0.1:{port}"})
    visits: list[Visit] = []
    asking = threading.Thread(target=lambda: visits.append(fetcher.visit("http://a.test/", 0, None)))
    asking.start()
    with SmallWeb({"a.test": site("a.test", Page("/", "Home", "home"))}, port=port):
        asking.join(60)
    assert [visit.outcome for visit in visits] == [Outcome.FETCHED]


def test_a_site_that_stays_away(tmp_path: Path) -> None:
    with SmallWeb({}) as web:
        address = web.address
    fetcher = Fetcher(QUICK, {"a.test": address})
    visit = fetcher.visit("http://a.test/", 0, None)
    assert visit.outcome is Outcome.FAILED
    assert "no connection" in visit.reason
    assert fetcher.robots("a.test") == (None, "")


def test_the_pages_of_a_site_that_is_away_are_kept(tmp_path: Path) -> None:
    page = Page("/", "Home", "home", links=("/x",))
    with SmallWeb({"a.test": site("a.test", page, Page("/x", "X", "x"))}) as web:
        first = crawl(web, tmp_path / "1")
    (tmp_path / "2").mkdir()
    before = {"a.test": tmp_path / "1" / "a.test"}
    second = Crawl({"a.test": tmp_path / "2"}, before, QUICK, {"a.test": web.address}).run()["a.test"]
    assert counted(second.values()) == {"kept": 2}
    assert {url: visit.body for url, visit in second.items()} == {url: visit.body for url, visit in first.items()}
    with SmallWeb({"a.test": web.sites["a.test"]}) as web:
        third = crawl(web, tmp_path / "3", {"a.test": tmp_path / "2"})
    assert counted(third.values()) == {"not modified": 2}
