"""The stage on which processes die and others take over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.register_assert_rewrite("tests.recovery.traffic", "tests.recovery.upkeep", "tests.recovery.stage")

from tests.recovery.stage import Stage  # noqa: E402 - the rewriting has to be asked for first


@pytest.fixture
def stage(database_settings: dict[str, Any], tmp_path: Path) -> Iterator[Stage]:
    with Stage(database_settings, tmp_path) as made:
        yield made
