"""Steps on Spark that take only some topics or types."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from towpath import Flow, files, topic
from towpath.errors import BadFlow
from towpath.testing.flows import try_flow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLICKS = [{"name": name, "n": at} for at, name in enumerate(["view", "left", None, "view", "odd"])]


def test_dataframe_steps_and_each_steps_take_types_and_topics(spark: SparkSession) -> None:
    flow = Flow("f", type_field="name")

    @flow.step(topic("clicks", "imports"), schema="name string, n int", types=("view", "left", "'; --"))
    def known(rows: Any) -> Any:
        return rows

    @flow.each(known, types=["view"], topics=["clicks"])
    def views(document: dict[str, Any]) -> dict[str, Any]:
        return {**document, "seen": True}

    flow.load(views, files("out"), name="out")
    tried = try_flow(flow, {"clicks": CLICKS, "imports": [*CLICKS, {"n": 9}, b"["]}, spark=spark)
    assert [one.document for one in tried.loaded["out"]] == [{"name": "view", "n": n, "seen": True} for n in (0, 3)]
    assert tried.filtered == Counter(known=5, views=4)
    assert (tried.read, len(tried.failed)) == (12, 1)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (
            "name string, n int",
            "'s' .*'type'.*name, n",
        ),
        ("type int", "int"),
        (None, "none"),
    ],
)
def test_a_step_that_could_take_nothing_is_refused(spark: SparkSession, schema: str | None, said: str) -> None:
    flow = Flow("f")
    step = flow.step(topic("t"), schema=schema, types=["view"], name="s")(lambda rows: rows)
    flow.load(step, files("out"), name="out")
    with pytest.raises(BadFlow, match=said):
        try_flow(flow, [{"type": "view"}], spark=spark)


def test_an_each_step_on_columns_without_the_type_is_refused(spark: SparkSession) -> None:
    flow = Flow("f")
    step = flow.step(topic("t"), schema="type string, n int", name="s")(lambda rows: rows.drop("type"))
    flow.load(flow.each(step, types=["view"], name="e")(lambda document: document), files("out"), name="out")
    with pytest.raises(BadFlow, match="'e'"):
        try_flow(flow, [{"type": "view"}], spark=spark)
