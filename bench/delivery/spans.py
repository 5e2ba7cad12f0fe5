"""How long a query has worked, by what Spark tells of its batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

LOOK, WORK, WHOLE = "latestOffset", "addBatch", "triggerExecution"  # what Spark calls them


class Span(NamedTuple):
    """From the moment that Spark knows what is there to read to the end of the batch, in seconds since 1970."""

    start: float
    end: float


def span_of(timestamp: str, durations_ms: Mapping[str, int]) -> Span | None:
    """That of one progress of a query; None where it has only looked and found nothing to do.

    The first look of a query starts its source, which takes a second where that is a process of its own.
    """
    if WORK not in durations_ms:
        return None
    triggered = datetime.fromisoformat(timestamp).timestamp()
    return Span(triggered + durations_ms.get(LOOK, 0) / 1_000, triggered + durations_ms[WHOLE] / 1_000)


def took_s(spans: Iterable[Span]) -> float:
    """From the start of the first batch to the end of the last, with all that lies between them."""
    known = list(spans)
    if not known:
        raise ValueError("the query has told of no batch")
    return max(span.end for span in known) - min(span.start for span in known)
