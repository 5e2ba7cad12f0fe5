"""Fetching one address over HTTP, within limits."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlsplit

import urllib3
from examples.harvest.crawler.address import absolute, host_of
from examples.harvest.crawler.limits import Limits
from examples.harvest.crawler.robots import AGENT
from examples.harvest.crawler.visit import Outcome, Visit
from examples.harvest.html_reader import NotHtml, read_html

PIECE = 8 << 10
AWAY_PAUSE_S = 0.5
PAGES = frozenset({"", "text/html", "application/xhtml+xml"})
REDIRECTS = frozenset({301, 302, 303, 307, 308})


class TooBig(Exception):
    """There is more of it than anybody wants."""


class TooSlow(Exception):
    """It did not come in time."""


class Away(Exception):
    """Nobody answers there: the site, or the way to it, is down."""


class Fetcher:
    """Fetches for one crawl. `connect_to` says where hosts are that no name server knows."""

    def __init__(self, limits: Limits, connect_to: Mapping[str, str]) -> None:
        self._limits = limits
        self._connect_to = connect_to
        self._away_since: dict[str, float] = {}  # by host
        self._pool = urllib3.PoolManager(num_pools=50, maxsize=4, retries=False)

    def robots(self, host: str) -> tuple[int | None, str]:
        """Status and text of a site's rules; no status when it does not answer, or answers with an error of its own."""
        for attempt in range(self._limits.attempts):
            self._rest(attempt)
            try:
                status, _, body = self._get_patiently(f"http://{host}/robots.txt", {})
            except (urllib3.exceptions.HTTPError, OSError, TooSlow, TooBig, Away):
                continue
            if status < 500:
                return status, body.decode(errors="replace")
        return None, ""

    def visit(self, url: str, depth: int, before: Visit | None, delay_s: float = 0.0) -> Visit:
        """What is at an address now. `before` is what was there the last time, `delay_s` the site's own wish."""
        found = Visit(url, depth, Outcome.FAILED, reason="no attempt was made")
        for attempt in range(self._limits.attempts):
            self._rest(attempt, delay_s)
            found = self._visit(url, depth, before)
            if found.outcome is not Outcome.FAILED:
                return found
        return _kept(before, found) if before is not None and before.has_body else found

    def _visit(self, url: str, depth: int, before: Visit | None) -> Visit:
        try:
            status, headers, body = self._get_patiently(url, _validators(before))
        except TooBig:
            return Visit(url, depth, Outcome.TOO_BIG, reason=f"more than {self._limits.max_bytes} bytes")
        except TooSlow:
            return Visit(url, depth, Outcome.TOO_SLOW, reason=f"not there after {self._limits.deadline_s:g} s")
        except (urllib3.exceptions.HTTPError, OSError, Away) as error:
            return Visit(url, depth, Outcome.FAILED, reason=f"{type(error).__name__}: {error}"[:500])
        if status == 304 and before is not None and before.has_body:
            return _again(before, depth, Outcome.NOT_MODIFIED, status)
        if status in REDIRECTS:
            target = absolute(headers.get("Location", ""), url) if headers.get("Location") else None
            return Visit(url, depth, Outcome.REDIRECT, status, links=() if target is None else (target,))
        if status in (404, 410):
            return Visit(url, depth, Outcome.GONE, status)
        if status != 200:
            return Visit(url, depth, Outcome.FAILED, status, reason=f"HTTP {status}")
        return _page(url, depth, headers, body)

    def _get_patiently(self, url: str, validators: Mapping[str, str]) -> tuple[int, Mapping[str, str], bytes]:
        """A site that is away is waited for, but once and not for each of its pages."""
        host = host_of(url)
        while True:
            try:
                got = self._get(url, validators)
            except Away:
                since = self._away_since.setdefault(host, time.monotonic())
                if time.monotonic() - since > self._limits.patience_s:
                    raise
                time.sleep(AWAY_PAUSE_S)
            else:
                self._away_since.pop(host, None)
                return got

    def _get(self, url: str, validators: Mapping[str, str]) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and body. No time limit of a socket covers a body that comes byte by byte: this one does."""
        limits = self._limits
        deadline = time.monotonic() + limits.deadline_s
        headers = {"User-Agent": AGENT, "Host": host_of(url), "Accept-Encoding": "identity", **validators}
        try:
            response = self._pool.request(
                "GET",
                self._routed(url),
                headers=headers,
                preload_content=False,
                redirect=False,
                timeout=urllib3.Timeout(connect=limits.deadline_s, read=limits.deadline_s),
            )
        except urllib3.exceptions.NewConnectionError as error:
            raise Away(f"no connection: {error}"[:500]) from error
        except urllib3.exceptions.TimeoutError as error:
            raise TooSlow from error
        try:
            body = bytearray()
            while piece := response.read1(PIECE):  # what is there: to wait for a whole piece may take for ever
                body += piece
                if len(body) > limits.max_bytes:
                    raise TooBig
                if time.monotonic() > deadline:
                    raise TooSlow
            response.release_conn()
            return response.status, response.headers, bytes(body)
        except urllib3.exceptions.TimeoutError as error:
            raise TooSlow from error
        finally:
            response.close()

    def _routed(self, url: str) -> str:
        host = host_of(url)
        return urlsplit(url)._replace(netloc=self._connect_to.get(host, host)).geturl()

    def _rest(self, attempt: int, delay_s: float = 0.0) -> None:
        if attempt:
            time.sleep(max(delay_s, self._limits.retry_s * 2 ** (attempt - 1)))


def _validators(before: Visit | None) -> dict[str, str]:
    if before is None or not before.has_body:
        return {}
    found = {"If-None-Match": before.etag, "If-Modified-Since": before.last_modified}
    return {name: value for name, value in found.items() if value is not None}


def _page(url: str, depth: int, headers: Mapping[str, str], body: bytes) -> Visit:
    content_type = headers.get("Content-Type", "")
    if content_type.partition(";")[0].strip().lower() not in PAGES:
        return Visit(url, depth, Outcome.NO_PAGE, 200, content_type[:200])
    return Visit(
        url,
        depth,
        Outcome.FETCHED,
        200,
        content_type[:200],
        headers.get("ETag"),
        headers.get("Last-Modified"),
        body,
        links_of(url, body, content_type),
    )


def links_of(url: str, body: bytes, content_type: str) -> tuple[str, ...]:
    """Where a page leads; nowhere when it is none."""
    try:
        found = (absolute(link, url) for link in read_html(body, content_type).links)
    except NotHtml:
        return ()
    return tuple(dict.fromkeys(link for link in found if link is not None))


def _again(before: Visit, depth: int, outcome: Outcome, status: int | None, reason: str = "") -> Visit:
    """The page of the last time."""
    return replace(before, depth=depth, outcome=outcome, status=status, reason=reason)


def _kept(before: Visit, failed: Visit) -> Visit:
    return _again(before, failed.depth, Outcome.KEPT, failed.status, failed.reason)
