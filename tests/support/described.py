"""What is asked of every answer that an OpenAPI description speaks of.

Not whether all that the description allows is accepted, and nothing else: an id may be right in shape and nobody's, and
of headers that nobody reads nobody minds the shape.
"""

from __future__ import annotations

from typing import Any

import schemathesis.checks
from hypothesis import HealthCheck

HEALTH = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.filter_too_much]


def checks(*more: str) -> Any:
    schemathesis.checks.load_all_checks()
    return schemathesis.checks.CHECKS.get_by_names(
        [
            "not_a_server_error",
            "status_code_conformance",
            "content_type_conformance",
            "response_headers_conformance",
            "response_schema_conformance",
            *more,
        ]
    )
