"""The environment of the flows' peers."""

from __future__ import annotations

from pathlib import Path

from bench.environment import Environment
from bench.page import ROOT

PEERS = Environment(ROOT / ".venv-bench-flow", Path(__file__).with_name("peers.txt"))
