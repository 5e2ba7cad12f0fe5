"""Quix Streams with its own sink for Elasticsearch, one of two processes."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from elasticsearch import Elasticsearch
from quixstreams import Application
from quixstreams.sinks.community.elasticsearch import ElasticsearchSink

from bench.flow.contenders.turn import my_turn, wait_for_end, wait_for_start
from bench.flow.workload import INDEX

BATCH = 2_000


class Sink(ElasticsearchSink):  # type: ignore[misc]
    """Its own, but for a question at the start that the minimal server does not answer."""

    def setup(self) -> None:
        self._client = Elasticsearch(**self._client_kwargs)


def main() -> None:
    turn = my_turn()
    app = Application(
        broker_address=turn.bootstrap,
        consumer_group=turn.group,
        auto_offset_reset="earliest",
        commit_interval=1.0,
        loglevel="ERROR",
        state_dir=turn.home,
    )
    sink = Sink(turn.url, f"{INDEX}all", batch_size=BATCH)  # the id is the record's key, which is unique here
    app.dataframe(app.topic(turn.topic, value_deserializer="json")).sink(sink)
    wait_for_start()
    threading.Thread(target=leave, daemon=True).start()
    app.run()


def leave() -> None:
    wait_for_end()
    os._exit(0)


main()
