"""The work of the flow with steps, as a person would write it in Python without Towpath."""

from __future__ import annotations

import datetime
from typing import Any

from bench.flow.workload import INDEX

TEXTS = ("type", "user", "url")


def action(document: dict[str, Any], id: str) -> dict[str, Any]:
    return {"_op_type": "index", "_index": INDEX + document["type"], "_id": id, "_source": document}


def labelled(document: dict[str, Any]) -> dict[str, Any]:
    """Schema, expectation, day and section."""
    for name in TEXTS:
        if not isinstance(document.get(name), str | None):
            raise TypeError(f"{name} is no text")
    at, amount = document["at"], document["amount"]
    if type(at) is not int or not isinstance(amount, int | float):
        raise TypeError("no numbers")
    if at <= 0:
        raise ValueError("before time")
    day = datetime.datetime.fromtimestamp(at / 1000, datetime.UTC).strftime("%Y-%m-%d")
    return {**document, "day": day, "section": document["url"].split("/")[1]}
