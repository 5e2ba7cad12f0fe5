"""The directory of a demo that is served: settings, the flow, the workflows."""

from __future__ import annotations

import json
import socket
import sys
from importlib import resources
from pathlib import Path

ENDING = ".txt"  # so that no tool takes the files for part of Towpath
CONFIG = "towpath.toml"


def write_served(directory: Path, port: int) -> Path:
    """Write its files; the path of the settings."""
    said = {"@port@": str(port or _free_port()), "@python@": json.dumps(sys.executable)[1:-1]}
    for file in (resources.files("towpath.demo") / "served").iterdir():
        text = file.read_text(encoding="utf-8")
        for hole, value in said.items():
            text = text.replace(hole, value)
        (directory / file.name.removesuffix(ENDING)).write_text(text, encoding="utf-8")
    return directory / CONFIG


def _free_port() -> int:
    """The console keeps it over its restarts, so that a page that is open finds it again."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port
