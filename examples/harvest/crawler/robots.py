"""What a site allows robots, and how fast."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.robotparser import RobotFileParser

from examples.harvest.crawler.limits import Limits

AGENT = "towpath-harvest"


@dataclass(frozen=True)
class Rules:
    """Of one site. Without an answer to the question nothing is allowed; without a file everything is (RFC 9309)."""

    parser: RobotFileParser
    delay_s: float
    is_answered: bool = True  # otherwise the site is away, and nothing can be said of its pages

    @classmethod
    def of(cls, status: int | None, text: str, limits: Limits) -> Rules:
        """`status` is that of robots.txt; none when there was no answer."""
        parser = RobotFileParser()
        if status == 200:
            parser.parse(text.splitlines())
        elif status is not None and 400 <= status < 500:
            parser.parse([])
        else:
            parser.parse(["User-agent: *", "Disallow: /"])
        return cls(parser, min(_delay_s(parser, limits), limits.longest_delay_s), status is not None)

    def allows(self, url: str) -> bool:
        return self.parser.can_fetch(AGENT, url)


def _delay_s(parser: RobotFileParser, limits: Limits) -> float:
    said = parser.crawl_delay(AGENT)
    if said is not None:
        return float(said)
    rate = parser.request_rate(AGENT)
    if rate is not None and rate.requests > 0:
        return rate.seconds / rate.requests
    return limits.delay_s
