"""How many errors came in each of the last hours, as a row of small bars."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

BAR, GAP, HEIGHT = 3, 1, 20


def sparkline(hours: Sequence[int]) -> Markup:
    """SVG, which says in words what it shows. The oldest hour is on the left."""
    top, total = max(hours, default=0), sum(hours)
    said = (
        f"{total:,} in the last {len(hours)} hours, {hours[-1]:,} in the present one" if hours else "nothing is known"
    )
    width = len(hours) * (BAR + GAP)
    return Markup(
        '<svg class="spark" role="img" width="{}" height="{}" viewBox="0 0 {} {}"><title>{}</title>{}</svg>'
    ).format(width, HEIGHT, width, HEIGHT, said, Markup().join(_bar(at, count, top) for at, count in enumerate(hours)))


def _bar(at: int, count: int, top: int) -> Markup:
    """An hour without errors is a dot, so that one sees where the day begins."""
    height = max(2, round(HEIGHT * count / top)) if count else 1
    look = "bar" if count else "none"
    return Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>').format(
        look, at * (BAR + GAP), HEIGHT - height, BAR, height
    )
