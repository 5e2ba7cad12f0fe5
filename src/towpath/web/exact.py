"""Answers as the command line gives them with `--json`: payloads stand in them as they are stored, number by number."""

from __future__ import annotations

from typing import Any

from fastapi.responses import Response

from towpath.exact_json import Exact, to_json


def exact(value: Any) -> Exact:
    """For a change: what is shown of it."""
    return Exact(to_json(value))


def exactly(value: Any) -> Response:
    """For a look."""
    return Response(to_json(value), media_type="application/json")
