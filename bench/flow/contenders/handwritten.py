"""A consumer by hand: confluent-kafka and the official client's `parallel_bulk`, one of two processes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))

import orjson
from confluent_kafka import Consumer, Message
from elasticsearch import Elasticsearch, OrjsonSerializer
from elasticsearch.helpers import parallel_bulk

from bench.flow.contenders.same_work import action, labelled
from bench.flow.contenders.turn import Turn, my_turn, wait_for_end, wait_for_start

AT_ONCE = 10_000
CHUNK = 2_000
THREADS = 2


def actions(messages: list[Message], kind: str) -> Iterator[dict[str, Any]]:
    for message in messages:
        document = orjson.loads(message.value())
        if kind == "steps":
            document = labelled(document)
        yield action(document, f"{message.topic()}-{message.partition()}-{message.offset()}")


def work(turn: Turn, consumer: Consumer, client: Elasticsearch) -> None:
    while True:
        messages = consumer.consume(AT_ONCE, 0.1)
        if messages:
            for _ in parallel_bulk(client, actions(messages, turn.kind), thread_count=THREADS, chunk_size=CHUNK):
                pass
            consumer.commit(asynchronous=False)


def main() -> None:
    turn = my_turn()
    client = Elasticsearch(turn.url, serializer=OrjsonSerializer(), request_timeout=60)
    settings = {"bootstrap.servers": turn.bootstrap, "group.id": turn.group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    wait_for_start()
    consumer.subscribe([turn.topic])
    threading.Thread(target=work, args=(turn, consumer, client), daemon=True).start()
    wait_for_end()


main()
