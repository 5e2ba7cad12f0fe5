"""JSON that is shown as it is stored: numbers are texts, so that none of them changes on the way."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any


class Exact(str):
    """JSON text that goes into a document as it is."""

    __slots__ = ()


def read_exactly(text: str) -> Any:
    """A JSON text as values, with its numbers as they are written."""
    return json.loads(text, parse_int=Exact, parse_float=Exact)


def to_json(value: Any, indent: str = "", above: str = "\n") -> str:
    """Values and exact texts as one JSON document; with `indent` over several lines."""
    if isinstance(value, Exact):
        return str(value)
    inner = above + indent
    lead, end, comma = (inner, above, f",{inner}") if indent else ("", "", ", ")
    if isinstance(value, dict) and value:
        pairs = (f"{json.dumps(k, ensure_ascii=False)}: {to_json(v, indent, inner)}" for k, v in value.items())
        return f"{{{lead}{comma.join(pairs)}{end}}}"
    if isinstance(value, list | tuple) and value:
        return f"[{lead}{comma.join(to_json(v, indent, inner) for v in value)}{end}]"
    return json.dumps(value, ensure_ascii=False, default=_spell)


def _spell(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def indented(text: str) -> str:
    """A JSON text over several lines, with every number as it is written."""
    return to_json(read_exactly(text), indent="  ")
