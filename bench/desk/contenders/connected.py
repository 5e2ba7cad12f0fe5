"""What the flow and the desk beside it connect to."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass

import towpath
from bench.flow.settings import MASTER, MAX_BATCH_RECORDS, MEMORY
from towpath.runtime import Runtime


@dataclass(frozen=True)
class Turn:
    """What a contender is told."""

    home: str
    database: str
    schema: str
    log: str
    index: str
    topic: str
    warm_up_topic: str


def my_turn() -> Turn:
    return Turn(**json.loads(sys.argv[1]))


def connected(turn: Turn) -> Runtime:
    return towpath.connect(
        database={"url": turn.database, "schema": turn.schema},
        log={"url": turn.log},
        spark={"master": MASTER, "memory": MEMORY},
        flow={"directory": f"{turn.home}/flows", "max_batch_records": MAX_BATCH_RECORDS},
        desk={"directory": f"{turn.home}/desk"},
    )
