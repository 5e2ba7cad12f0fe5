"""The same four queries as one plain Spark job over files: what Towpath is compared with.

It reads, checks and answers with columns and joins; nothing of Towpath is in it but the way a session is started.
`python -m examples.flights.batch_job AIRPORTS ITINERARIES DIRECTORY` writes a directory of CSV files for each query
and says how many seconds that took once Spark was up.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from examples.flights import queries
from examples.flights.distance import DETOUR, EARTH_KM
from examples.flights.itinerary import BETWEEN_STOPS, COLUMNS
from examples.flights.spark_queries import MANY_STOPS, fares_of, fastest_of

from towpath.settings import SparkSettings
from towpath.spark.session import build_session

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

AIRPORTS = "code string, name string, country string, latitude double, longitude double"
TEXTS = "id string, origin string, destination string, stops string, duration string, fare string, _corrupt string"
WHOLE = "^-?(0|[1-9][0-9]{0,18})$"
INSTEAD = "\ufffd"  # what Spark has in the place of bytes that are no UTF-8


def run(spark: SparkSession, airports: Path, itineraries: Path, directory: Path) -> None:
    """All four, each to a directory of its own."""
    good = read(spark, itineraries).cache()
    many = good.where(MANY_STOPS)
    answers = {
        queries.STOPS: many,
        queries.DETOURS: detours(good, spark.read.csv(str(airports), schema=AIRPORTS, header=True, escape='"')),
        queries.FASTEST: fastest_of(many),
        queries.FARES: fares_of(good),
    }
    for query, frame in answers.items():
        frame.select(*queries.COLUMNS[query]).write.csv(str(directory / query), mode="overwrite", emptyValue="")
    good.unpersist()


def read(spark: SparkSession, path: Path) -> DataFrame:
    """Good itineraries, each id once: the first line of it, by its place in the file."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    texts = spark.read.csv(str(path), schema=TEXTS, header=True, columnNameOfCorruptRecord="_corrupt")
    texts = texts.fillna("", "stops")  # Spark takes what is empty for null
    fits = [F.col("_corrupt").isNull()]
    fits += [F.col(name).rlike(WHOLE) for name in ("id", "duration", "fare")]
    fits += [~F.col(name).contains(INSTEAD) for name in ("origin", "destination", "stops")]
    for each in fits:
        texts = texts.where(each)
    typed = texts.select(
        F.col("id").cast("bigint").alias("id"),
        *("origin", "destination", "stops"),
        F.col("duration").cast("int").alias("duration"),
        F.col("fare").cast("bigint").alias("fare"),
        F.monotonically_increasing_id().alias("_line"),
    )
    nth = F.row_number().over(Window.partitionBy("id").orderBy("_line"))
    once = typed.withColumn("_nth", nth).where("_nth = 1")
    return once.where("duration > 0 and fare >= 0").select(*COLUMNS)


def detours(good: DataFrame, airports: DataFrame) -> DataFrame:
    """The airports of each itinerary one by one, with their coordinates, gathered again and measured."""
    from pyspark.sql import functions as F

    between = F.when(F.col("stops") == "", F.array()).otherwise(F.split("stops", f"[{BETWEEN_STOPS}]"))
    path = F.concat(F.array("origin"), between, F.array("destination"))
    met = good.select("id", F.posexplode(path).alias("_at", "code")).join(F.broadcast(airports), "code", "left")
    spot = F.struct("_at", "latitude", "longitude")
    gathered = met.groupBy("id").agg(
        F.sort_array(F.collect_list(spot)).alias("_path"), F.bool_and(F.col("latitude").isNotNull()).alias("_known")
    )
    at = F.sequence(F.lit(1), F.size("_path") - 1)
    legs = F.transform(at, lambda n: _km(F.element_at("_path", n), F.element_at("_path", n + 1)))
    measured = gathered.where("_known").select(
        "id",
        F.aggregate(legs, F.lit(0.0), lambda sum, leg: sum + leg).alias("_total"),
        _km(F.element_at("_path", F.lit(1)), F.element_at("_path", F.lit(-1))).alias("_direct"),
    )
    far = measured.where(F.col("_total") > DETOUR * F.col("_direct"))
    rounded = far.select("id", F.expr("bigint(rint(_total)) as km"), F.expr("bigint(rint(_direct)) as direct_km"))
    return good.join(rounded, "id")


def _km(one: Column, other: Column) -> Column:
    """The operations of `distance.between`, in their order."""
    from pyspark.sql import functions as F

    latitude, other_latitude = F.radians(one["latitude"]), F.radians(other["latitude"])
    north = F.sin((other_latitude - latitude) / 2.0)
    east = F.sin((F.radians(other["longitude"]) - F.radians(one["longitude"])) / 2.0)
    square = north * north + F.cos(latitude) * F.cos(other_latitude) * east * east
    return F.lit(2.0 * EARTH_KM) * F.asin(F.least(F.lit(1.0), F.sqrt(square)))


def main(airports: str, itineraries: str, directory: str) -> None:
    spark = build_session(SparkSettings(), "flights")
    spark.range(1).count()
    began = time.monotonic()
    run(spark, Path(airports), Path(itineraries), Path(directory))
    sys.stdout.write(f"{time.monotonic() - began:.3f}\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
