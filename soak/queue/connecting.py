"""Opening a database that may be away at this moment."""

from __future__ import annotations

import time
from typing import Any

from towpath import Runtime, settings
from towpath.errors import DatabaseUnavailable

PAUSE_S = 0.2


def connect_patiently(sections: dict[str, Any]) -> Runtime:
    """Connect, however long it takes until the database is there."""
    while True:
        try:
            return Runtime(settings.load(sections))
        except DatabaseUnavailable:
            time.sleep(PAUSE_S)
