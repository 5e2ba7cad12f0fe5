"""The flow of the demo: events of a shop, checked, priced and sorted into a table or indices, and into files."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from towpath.flow.flow import Flow, expect
from towpath.flow.sinks.sink import Sink
from towpath.flow.strategy import Strategy
from towpath.flow.topic_reference import topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME, TOPIC = "shop", "shop-events"
SCHEMA = "type string not null, order_id bigint, customer string, product string, quantity int, price decimal(10,2)"
PRICES = {"tea": 350, "coffee": 480, "cocoa": 420, "biscuit": 120}  # in cents
TIME_LIMIT_S = 0.5

# Products that stand for the faults of programs.
FREEZES, CRASHES = "the product that freezes", "the product that crashes"


def shop(
    outputs: Sequence[tuple[str, Sink]],
    *,
    name: str = NAME,
    source: str = TOPIC,
    delivery: str = Strategy.EXACTLY_ONCE,
    deterministic: bool | None = None,
    timeout_s: float | None = TIME_LIMIT_S,
) -> Flow:
    """One source, a DataFrame step with expectations, a function for each record, and what loads it."""
    flow = Flow(name, delivery=delivery)

    @flow.step(topic(source), schema=SCHEMA)
    @expect("a quantity is positive", "quantity is null or quantity > 0")
    def wanted(events: DataFrame) -> DataFrame:
        return events.where("type <> 'heartbeat'")

    @flow.each(wanted, timeout_s=timeout_s, deterministic=deterministic)
    def priced(event: dict[str, Any]) -> dict[str, Any]:
        if event["type"] != "order":
            return event
        return {**event, "total_cents": price_of(event["product"]) * event["quantity"]}

    for output, sink in outputs:
        flow.load(priced, sink, name=output)
    return flow


def price_of(product: str) -> int:
    """Looks the price up. Two products are there to show what a flow does about a program that goes wrong."""
    if product == FREEZES:
        time.sleep(60)
    if product == CRASHES:
        os._exit(1)
    return PRICES[product]
