"""How far a crawl goes, and how patient it is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What one site may cost."""

    max_depth: int = 6  # links from the front page
    max_pages: int = 500  # addresses of one site
    max_bytes: int = 256 << 10  # of one page
    deadline_s: float = 1.5  # for one page, from the request to its last byte
    attempts: int = 4  # of one page that does not answer, or answers with an error of its server
    retry_s: float = 0.1  # before the second attempt; twice as long before each further one
    delay_s: float = 0.05  # between two pages of a site that does not say how long
    longest_delay_s: float = 30.0  # whatever a site says
    patience_s: float = 60.0  # with a site that nobody can connect to: it may come back, and its pages with it
