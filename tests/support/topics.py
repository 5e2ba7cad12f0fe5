"""Topics on the command line: the settings of a log as variables."""

from __future__ import annotations

import pytest
from tests.support.logs import Place


def set_variables(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on the command line finds this log."""
    for section, values in (("DATABASE", place.database), ("LOG", place.log)):
        for key, value in values.items():
            monkeypatch.setenv(f"TOWPATH_{section}__{key.upper()}", str(value))
