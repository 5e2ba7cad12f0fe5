"""Where a harvest keeps its things, and the settings that follow from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

DEFAULT = Path(".harvest")
WEB = "web.json"


@dataclass(frozen=True)
class WebPlace:
    """Where the small web was last served, and on which of its days."""

    port: int
    day: int


@dataclass(frozen=True)
class Home:
    """A directory."""

    path: Path

    @property
    def crawls(self) -> Path:
        return self.path / "crawls"

    @property
    def search_file(self) -> Path:
        return self.path / "search.db"

    def read_web(self) -> WebPlace | None:
        try:
            return WebPlace(**json.loads((self.path / WEB).read_text()))
        except FileNotFoundError:
            return None

    def keep_web(self, place: WebPlace) -> None:
        written = self.path / f"{WEB}.new"
        written.write_text(json.dumps(asdict(place)))
        written.replace(self.path / WEB)

    def settings(self, database: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """For `towpath.connect`: a short lease, so that a death is noticed within seconds."""
        own = {"url": f"sqlite:///{self.path / 'towpath.db'}"}
        return {
            "database": {**(database or own), "auto_upgrade": True},
            "log": {"url": f"sqlite:///{self.path / 'topics.db'}"},
            "process": {"heartbeat_s": 0.5, "lease_s": 6.0},
            "queue": {"caretaker_s": 0.5},
            "spark": {"master": "local[2]"},
            "flow": {"directory": str(self.path / "flows")},
            "actors": {"directory": str(self.path / "spawned")},
            "logging": {"level": "warning"},
        }
