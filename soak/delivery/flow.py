"""The flow under test: three stages, chained by topics. The second and the third answer differently on every call."""

from __future__ import annotations

import random
import secrets
import time
from typing import Any

from soak.delivery.records import Kind
from towpath import Flow, table, topic

FLOW = "chaos"
SOURCE, PARSED, LEFT, RIGHT, OUT = "source", "parsed", "left", "right", "out"
ROUTES = (LEFT, RIGHT)
TOPICS = (SOURCE, PARSED, LEFT, RIGHT, OUT)
ERRORS = f"{FLOW}.errors"
TABLE = "children"
PARTITIONS = 2
MOST_CHILDREN = 4
FAILS_BY_CHANCE = 0.02
BY_CHANCE = "by chance"
LONGEST_WORK_S = 0.002  # of one record: a kill finds tasks in the middle of their work

Document = dict[str, Any]


def chain(url: str, delivery: str) -> Flow:
    """`url`: the PostgreSQL database with the table."""
    flow = Flow(FLOW, delivery=delivery)
    parsed = flow.each(topic(SOURCE), deterministic=True, name="parse")(parse)
    flow.load(parsed, topic(PARSED), name=PARSED)
    routed = flow.each(topic(PARSED), outputs=ROUTES, name="family")(family)
    for route in ROUTES:
        flow.load(routed[route], topic(route), name=route)
    stamped = flow.each(topic(*ROUTES), name="stamp")(stamp)
    flow.load(stamped, table(TABLE, url=url, columns={"fits": "bigint"}), name=TABLE)
    flow.load(stamped, topic(OUT), name=OUT)
    return flow


def parse(document: Document, record: Any) -> Document | None:
    """From here on a document knows its place in the source."""
    if document["kind"] == Kind.RAISING:
        raise ValueError("told to")
    if document["kind"] == Kind.FILTERED:
        return None
    return {**document, "place": f"{record.partition}/{record.offset}"}


def family(document: Document) -> dict[str, list[Document]]:
    """A family as large as chance will have it, on one of two ways; or an error, by chance as well."""
    time.sleep(random.uniform(0, LONGEST_WORK_S))
    if random.random() < FAILS_BY_CHANCE:
        raise RuntimeError(BY_CHANCE)
    count, route, draw = random.randint(1, MOST_CHILDREN), random.choice(ROUTES), secrets.token_hex(4)
    return {route: [{**document, "child": at, "of": count, "route": route, "draw": draw} for at in range(count)]}


def stamp(child: Document) -> Document:
    """Both outputs have to show the same stamp."""
    time.sleep(random.uniform(0, LONGEST_WORK_S))
    return {**child, "stamp": secrets.token_hex(4)}
