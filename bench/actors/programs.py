"""The processes of this benchmark."""

from __future__ import annotations

import sys

from bench.flow.process import Program
from bench.page import ROOT
from bench.queue.peers import PEERS


def ours(name: str) -> Program:
    return _program(sys.executable, name)


def peer(name: str) -> Program:
    """With the interpreter of the queue's peers, of which DBOS is one."""
    return _program(str(PEERS.python), name)


def _program(python: str, name: str) -> Program:
    command = [python, "-m", f"bench.actors.contenders.{name}"]
    return Program(command, environment={"PYTHONPATH": str(ROOT)})
