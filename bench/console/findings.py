"""The rows for people."""

from __future__ import annotations

from statistics import median, quantiles

from bench.console import goals
from bench.findings import ABSENT, Finding


def list_finding(name: str, place: str, times_s: list[float]) -> Finding:
    middle = median(times_s)
    most = quantiles(times_s, n=20)[-1] if len(times_s) > 1 else times_s[0]
    is_met = middle < goals.MEDIAN_S and most < goals.MOST_S
    told = f"p50 {middle * 1000:,.0f} ms, p95 {most * 1000:,.0f} ms"
    return Finding(f"page: {name}", place, told, ABSENT, ABSENT, goals.LIST, is_met)


def seen_finding(place: str, delays_s: list[float]) -> Finding:
    told = f"p50 {median(delays_s):.2f} s, longest {max(delays_s):.2f} s"
    is_met = max(delays_s) < goals.SEEN_S
    return Finding(
        "a message, from its commit to the page in Chromium", place, told, ABSENT, ABSENT, goals.SEEN, is_met
    )


def crowd_finding(place: str, share: float) -> Finding:
    told = f"{share * 100:.1f} % of a core"
    operation = f"{goals.OPEN_PAGES} open pages of ten people, something new every second"
    return Finding(operation, place, told, ABSENT, ABSENT, goals.CROWD, share < goals.SHARE)
