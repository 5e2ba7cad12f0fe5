"""The two queries that need all itineraries of a client, on Spark: for the plain job and for the flow's closing steps.

Nothing of Towpath is in them: a closing step is what one would write for a batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from examples.flights.itinerary import BETWEEN_STOPS
from examples.flights.queries import COLUMNS, FARES, FASTEST, MOST_FAST, STOPS_AT_LEAST

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MANY_STOPS = f"size(split(stops, '[{BETWEEN_STOPS}]')) >= {STOPS_AT_LEAST}"


def fastest_of(many: DataFrame) -> DataFrame:
    """The two fastest of each route; of equally fast ones those with the smaller ids."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    ranked = F.row_number().over(Window.partitionBy("origin", "destination").orderBy("duration", "id"))
    return many.withColumn("_rank", ranked).where(F.col("_rank") <= MOST_FAST).select(*COLUMNS[FASTEST])


def fares_of(good: DataFrame) -> DataFrame:
    """Mean and highest fare of each route, over fares above the mean of all. In whole numbers: nothing is rounded."""
    from pyspark.sql import functions as F

    overall = good.agg(F.sum("fare").alias("_total"), F.count("*").alias("_count"))
    above = good.crossJoin(F.broadcast(overall)).where("fare * _count > _total")
    by_route = above.groupBy("origin", "destination").agg(
        F.sum("fare").alias("_sum"), F.count("*").alias("_n"), F.max("fare").alias("highest")
    )
    return by_route.withColumn("mean", F.expr(mean_text("_sum", "_n"))).select(*COLUMNS[FARES])


def mean_text(total: str, count: str) -> str:
    """An expression for the exact mean of whole numbers, rounded half-even to two places, as text."""
    down, left = f"({total} * 100 div {count})", f"({total} * 100 % {count})"
    is_up = f"2 * {left} > {count} or (2 * {left} = {count} and {down} % 2 = 1)"
    hundredths = f"({down} + if({is_up}, 1, 0))"
    return f"concat({hundredths} div 100, '.', lpad({hundredths} % 100, 2, '0'))"
