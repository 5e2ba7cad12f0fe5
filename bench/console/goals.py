"""What the console has to reach. A goal that cannot be met stays and is explained; it is never lowered."""

from __future__ import annotations

MEDIAN_S, MOST_S = 0.2, 0.5  # of a list: the median, and 95 of 100
SEEN_S = 2.0
OPEN_PAGES, SHARE = 50, 0.1  # of a core
LIST = f"p50 < {MEDIAN_S * 1000:g} ms, p95 < {MOST_S * 1000:g} ms"
SEEN = f"< {SEEN_S:g} s each time"
CROWD = f"< {SHARE * 100:g} % of a core"
