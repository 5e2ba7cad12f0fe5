"""Cases as JSON lines or CSV, with what went into the flow, less what the person may not see.

Read in portions, each a short look of its own: an export of a million cases holds up nobody.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from datetime import datetime
from enum import StrEnum
from typing import Any

from towpath.desk.case import Case
from towpath.desk.desk_json import case_item, headers_item, text_or_base64
from towpath.desk.looking import Looking
from towpath.desk.masking import NO_MASKS, Masks
from towpath.desk.selection import Selection

PORTION = 200
COLUMNS = (
    *("seq", "id", "flow", "stage", "kind", "state", "group", "code", "step", "exception", "message", "output"),
    *("topic", "partition", "offset", "stop", "key", "key_base64", "attempts", "assignee", "first_failed_at"),
    *("failed_at", "settled_at", "settled_by", "settled_why", "value", "value_base64"),
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a table calculator would run what begins so


class Form(StrEnum):
    """What an export looks like."""

    JSON = "json"  # one object a line
    CSV = "csv"


class Export:
    """All cases of a selection, newest first, as text."""

    def __init__(self, looking: Looking) -> None:
        self._looking = looking

    def lines(self, selection: Selection, form: Form, *, masks: Masks = NO_MASKS) -> Iterator[str]:
        """Whole lines, each with its end. CSV begins with the names of the columns."""
        write: Callable[[dict[str, Any]], str] = _json_line if form is Form.JSON else _csv_line
        if form is Form.CSV:
            yield _csv_row(COLUMNS)
        for case, value, headers in self._cases(selection, masks):
            yield write({**case_item(case), **text_or_base64("value", value), "headers": headers})

    def _cases(self, selection: Selection, masks: Masks) -> Iterator[tuple[Case, bytes | None, list[dict[str, Any]]]]:
        before: int | None = None
        while True:
            page = self._looking.page(selection, limit=PORTION, before=before, masks=masks)
            contents = self._looking.contents(page.cases, masks=masks)
            for case in page.cases:
                value, headers = contents.get(case.id, (None, ()))
                yield case, value, headers_item(headers)
            if page.next is None:
                return
            before = page.next


def _json_line(item: dict[str, Any]) -> str:
    return json.dumps(item, ensure_ascii=False, default=_spell) + "\n"


def _csv_line(item: dict[str, Any]) -> str:
    return _csv_row([_cell(item.get(name)) for name in COLUMNS])


def _csv_row(cells: Any) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, datetime):
        return _spell(value)
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value


def _spell(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
