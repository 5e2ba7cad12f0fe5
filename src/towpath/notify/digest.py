"""Many notices as one message. Pure: values in, values out."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from towpath.notify.notice import NoticeKind, StoredNotice

MOST_SHOWN = 50
NAMES = {
    NoticeKind.GROUP_FOUND: ("new group of errors", "new groups of errors"),
    NoticeKind.GROUP_REGRESSED: ("group of errors is back", "groups of errors are back"),
    NoticeKind.LANE_STUCK: ("lane is stuck", "lanes are stuck"),
    NoticeKind.DESK_GROWING: ("flow fills the desk", "flows fill the desk"),
    NoticeKind.DUTY_FAILED: ("process cannot be kept running", "processes cannot be kept running"),
}

Digest = dict[str, Any]


def digest(notices: Sequence[StoredNotice], kinds: Collection[str]) -> Digest | None:
    """What one target is told; none when nothing of it is for that target. `more` are not listed, but counted."""
    wanted = [notice for notice in notices if notice.kind in kinds]
    if not wanted:
        return None
    counts = Counter(notice.kind for notice in wanted)
    return {
        "title": _title(counts),
        "counts": {kind.value: counts[kind] for kind in NoticeKind if counts[kind]},
        "notices": [_item(notice) for notice in wanted[:MOST_SHOWN]],
        "more": max(0, len(wanted) - MOST_SHOWN),
    }


def trial() -> Digest:
    """What `towpath notify try` sends."""
    return {"title": "a notification to try the way", "counts": {}, "notices": [], "more": 0}


def as_text(found: Digest) -> str:
    """The same for a person's eyes."""
    lines = [one_line(found["title"]), ""]
    for notice in found["notices"]:
        times = f" (× {notice['times']})" if notice["times"] > 1 else ""
        lines.append(f"- {one_line(notice['title'])}{times}")
        lines.append(f"  {one_line(notice['kind'])} {one_line(notice['subject'])}, {notice['at']}")
    if found["more"]:
        lines.append(f"… and {found['more']} more")
    return "\n".join(lines) + "\n"


def one_line(text: str) -> str:
    """The text without what could end a line, a header or the order of its letters."""
    return " ".join("".join(" " if unicodedata.category(c)[0] in "CZ" else c for c in text).split())


def _title(counts: Counter[NoticeKind]) -> str:
    return ", ".join(f"{counts[kind]} {NAMES[kind][counts[kind] > 1]}" for kind in NoticeKind if counts[kind])


def _item(notice: StoredNotice) -> dict[str, Any]:
    return {
        "kind": notice.kind.value,
        "subject": notice.subject,
        "title": notice.title,
        "data": notice.data,
        "times": notice.times,
        "at": notice.at.isoformat(),
        "last_at": notice.last_at.isoformat(),
    }
