"""Whether a claim costs the same behind a thousand and behind a million waiting messages."""

from __future__ import annotations

import statistics
import time

import towpath
from towpath.queue import Inbox, Outbox

SHORT = 1_000
LONG = 1_000_000
CLAIMS = 60
CLAIM_SIZE = 10
SEND_BATCH = 10_000
INBOX = "claim-cost"


def claim_cost_ratio(url: str, long: int = LONG) -> float:
    """The median time of a claim behind `long` messages over that behind a thousand."""
    with towpath.connect(url) as runtime:
        inbox = runtime.queue.inbox(INBOX)
        outbox = runtime.queue.outbox("claim-cost-client")
        waiting = _fill(outbox, 0, SHORT)
        short_s = _median_claim_s(inbox)
        _fill(outbox, waiting - CLAIMS * CLAIM_SIZE, long)
        return _median_claim_s(inbox) / short_s


def _fill(outbox: Outbox, waiting: int, wanted: int) -> int:
    for first in range(waiting, wanted, SEND_BATCH):
        size = min(SEND_BATCH, wanted - first)
        outbox.notice_many(INBOX, "count", [{"n": number} for number in range(size)])
    return wanted


def _median_claim_s(inbox: Inbox) -> float:
    times = []
    for _ in range(CLAIMS):
        started = time.perf_counter()
        messages = inbox.claim(CLAIM_SIZE)
        times.append(time.perf_counter() - started)
        inbox.finish(messages)
    return statistics.median(times)
