"""Means without rounding errors: whole numbers in, a text with two places out."""

from __future__ import annotations

from fractions import Fraction


def mean_text(total: int, count: int) -> str:
    """The mean in cents, exact, then rounded half-even to two places: `12345.60`."""
    hundredths = round(Fraction(total * 100, count))  # Python rounds a fraction half-even, and exactly
    return f"{hundredths // 100}.{hundredths % 100:02d}"


def is_above_mean(fare: int, total: int, count: int) -> bool:
    """Strictly above, without a division."""
    return fare * count > total
