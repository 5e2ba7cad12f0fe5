"""Importing what a user has written."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import towpath
from towpath.core.user_code import import_user_module
from towpath.errors import BadFlow


def test_an_error_is_told_with_the_users_own_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where Towpath itself lies inside of the user's directory, as in a checkout."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    file = tmp_path / "mine.py"
    file.write_text("from towpath.policy import repeat\nrepeat(0)\n", encoding="utf-8")
    with pytest.raises(BadFlow, match=r"mine\.py, line 2: .* \(repeat\(0\)\)$"):
        import_user_module(str(file), Path(towpath.__file__).parents[1], BadFlow)
