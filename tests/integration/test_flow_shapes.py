"""Graph shapes on Spark: branches, forks and alternatives, with every record delivered as a whole or not at all."""

from __future__ import annotations

import sqlite3
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F
from tests.support.flows import World

from towpath import Flow, expect, files, table, topic
from towpath.errors import BadFlow
from towpath.flow.audit.audit import Audit
from towpath.flow.stage import StageState
from towpath.testing.flows import FlowTrial, Loaded, try_flow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "n bigint, name string"
RECORDS: list[Any] = [{"n": n, "name": f"r{n}", "x": 1.50} for n in range(10)]


def given(tried: FlowTrial, output: str, field: str = "n") -> list[Any]:
    return [one.document[field] for one in tried.loaded[output]]


def failed(tried: FlowTrial) -> dict[int, str]:
    return {one.offset: one.failure.step for one in tried.failed}


def origin(one: Loaded) -> tuple[str, int]:
    topic, _, _, offset, *_ = one.id.split(":")
    return topic, int(offset)


def is_balanced(tried: FlowTrial) -> bool:
    """Every record is in some output, filtered or failed, and in no two of these places."""
    loaded = {origin(one) for each in tried.loaded.values() for one in each}
    away = {(one.topic, one.offset) for one in tried.failed}
    return not loaded & away and len(loaded) + len(away) + sum(tried.filtered.values()) == tried.read


def test_branches_of_dataframe_steps(spark: SparkSession) -> None:
    """Two steps on one source, one of them on through an each step; the source itself is an output too."""
    flow = Flow("f")
    source = flow.source(topic("t"), schema=SCHEMA)
    even = flow.step(source, name="even")(lambda rows: rows.where("n % 2 = 0").withColumn("half", F.col("n") / 2))
    twice = flow.step(source, name="twice")(
        lambda rows: rows.where("n < 4").select("*", F.explode(F.array(F.lit(1), F.lit(2))).alias("k"))
    )

    @flow.each(twice)
    def label(row: dict[str, Any]) -> dict[str, Any]:
        if row["n"] == 2:
            raise ValueError("two")
        return {**row, "label": row["name"] + str(row["k"])}

    flow.load(even, files("even"), name="even")
    flow.load(label, files("label"), name="label")
    flow.load(source, files("all-{name}"), name="all")
    tried = try_flow(flow, [*RECORDS, b"{", {"n": "no"}], spark=spark)
    assert failed(tried) == {2: "label", 10: "t", 11: "t"}
    assert given(tried, "even") == [0, 4, 6, 8]
    assert given(tried, "all") == [0, 1, 3, 4, 5, 6, 7, 8, 9]
    assert given(tried, "label", "label") == ["r01", "r02", "r11", "r12", "r31", "r32"]
    assert [one.id for one in tried.loaded["label"]][:3] == ["t:0:0:0", "t:0:0:0:1", "t:0:0:1"]
    assert tried.loaded["all"][0].payload == b'{"n": 0, "name": "r0", "x": 1.5}'
    assert tried.loaded["even"][1].document == {"n": 4, "name": "r4", "x": 1.5, "half": 2.0}
    assert is_balanced(tried)


def test_an_expectation_in_one_branch_fails_the_record_in_all(spark: SparkSession) -> None:
    flow = Flow("f")
    source = flow.source(topic("t"), schema=SCHEMA)
    small = flow.step(source, name="small")(expect("not three", "n <> 3")(lambda rows: rows.where("n < 5")))
    big = flow.step(source, name="big")(lambda rows: rows.where("n in (3, 9)"))
    flow.load(small, files("small"), name="small")
    flow.load(big, files("big"), name="big")
    tried = try_flow(flow, RECORDS, spark=spark)
    assert failed(tried) == {3: "small"}
    assert (given(tried, "small"), given(tried, "big")) == ([0, 1, 2, 4], [9])
    assert tried.filtered == Counter({"every output": 4})
    assert is_balanced(tried)


def test_a_fork_of_dataframes(spark: SparkSession) -> None:
    flow = Flow("f")
    checked = flow.step(topic("t"), schema=SCHEMA, name="checked")(expect("not seven", "n <> 7")(lambda rows: rows))

    @flow.fork(checked, outputs=("small", "big", "none"))
    def sizes(rows: Any) -> Any:
        return {"small": rows.where("n < 3"), "big": rows.where("n >= 6").withColumn("big", F.lit(True))}

    small, big, none = sizes
    flow.load(checked, files("c"), name="checked")
    flow.load(
        flow.step(small, name="next")(lambda rows: rows.withColumn("m", F.col("n") + 1)), files("s"), name="small"
    )
    flow.load(big, files("b"), name="big")
    flow.load(none, files("n"), name="none")
    tried = try_flow(flow, RECORDS, spark=spark)
    assert failed(tried) == {7: "checked"}
    assert given(tried, "small", "m") == [1, 2, 3]
    assert (given(tried, "big"), given(tried, "none")) == ([6, 8, 9], [])
    assert given(tried, "checked") == [0, 1, 2, 3, 4, 5, 6, 8, 9]
    assert not tried.filtered
    assert is_balanced(tried)


def test_what_a_fork_gives_to_none_was_filtered_by_it(spark: SparkSession) -> None:
    flow = Flow("f")
    source = flow.source(topic("t"), schema=SCHEMA)
    forked = flow.fork(source, outputs=("a", "b"), name="forked")(
        lambda rows: {"a": rows.where("n < 3"), "b": rows.where("n > 6")}
    )
    for branch in forked:
        flow.load(branch, files(branch.output), name=branch.output)
    tried = try_flow(flow, RECORDS, spark=spark)
    assert (given(tried, "a"), given(tried, "b")) == ([0, 1, 2], [7, 8, 9])
    assert tried.filtered == Counter(forked=4)


def test_an_each_step_with_several_outputs(spark: SparkSession) -> None:
    calls = Flow("f")

    @calls.each(topic("t"), outputs=["small", "big"])
    def sizes(document: dict[str, Any]) -> Any:
        match document["n"]:
            case 0:
                return None
            case 1:
                return {"small": document, "big": [{**document, "k": k} for k in range(3)]}
            case 2:
                return {"huge": document}
            case 3:
                return {"small": document, "big": "no document"}
            case 4:
                return {}
        return {"big": document}

    last = calls.each(sizes["big"], name="last")(lambda document: None if document["n"] == 5 else document)
    calls.load(sizes["small"], files("s"), name="small")
    calls.load(last, files("b"), name="big")
    tried = try_flow(calls, RECORDS, spark=spark)
    assert given(tried, "small") == [1]
    assert given(tried, "big") == [1, 1, 1, 6, 7, 8, 9]
    assert failed(tried) == {2: "sizes", 3: "sizes"}
    assert tried.filtered == Counter({"sizes": 2, "every output": 1})
    assert [one.id for one in tried.loaded["big"]][:3] == ["t:0:0:1", "t:0:0:1:1", "t:0:0:1:2"]
    assert is_balanced(tried)


def test_any_of_several_topics_with_schemas_of_their_own(spark: SparkSession) -> None:
    flow = Flow("f")
    clicks = flow.source(topic("clicks"), schema="n bigint")
    names = flow.source(topic("names"), schema="name string not null")
    label = flow.each(flow.any_of(clicks, names), name="label")(lambda document: {**document, "seen": True})
    flow.load(names, files("names"), name="names")
    flow.load(label, files("both"), name="both")
    tried = try_flow(
        flow, {"clicks": [{"n": 1}, {"n": "x"}, {"n": 2}], "names": [{"name": "a"}, {"n": 1}]}, spark=spark
    )
    assert sorted(origin(one)[0] for one in tried.loaded["both"]) == ["clicks", "clicks", "names"]
    assert given(tried, "names", "name") == ["a"]
    assert {(one.topic, one.offset): one.failure.step for one in tried.failed} == {
        ("clicks", 1): "clicks",
        ("names", 1): "names",
    }
    assert is_balanced(tried)


def test_a_step_on_any_of_has_the_columns_of_all(spark: SparkSession) -> None:
    flow = Flow("f")
    clicks = flow.source(topic("clicks"), schema="n bigint, at double")
    names = flow.source(topic("names"), schema="n bigint, name string")
    even = flow.step(clicks, name="even")(lambda rows: rows.where("n % 2 = 0"))

    @flow.step(flow.any_of(even, names))
    def both(rows: Any) -> Any:
        return rows.withColumn("text", F.concat_ws("/", "n", "name", "at"))

    flow.load(both, files("both"), name="both")
    tried = try_flow(
        flow, {"clicks": [{"n": n, "at": 0.5} for n in range(4)], "names": [{"n": 7, "name": "a", "y": 1}]}, spark=spark
    )
    assert sorted(given(tried, "both", "text")) == ["0/0.5", "2/0.5", "7/a"]
    payloads = {one.payload for one in tried.loaded["both"]}
    assert b'{"n": 7, "name": "a", "y": 1,"text":"7/a"}' in payloads
    assert sum(tried.filtered.values()) == 2
    assert is_balanced(tried)


def test_any_of_two_each_steps(spark: SparkSession) -> None:
    """Both give something for some records: each row once, numbered over both."""
    flow = Flow("f")
    source = flow.source(topic("t"), schema=SCHEMA)
    one = flow.each(source, name="one")(lambda document: {**document, "by": 1} if document["n"] < 3 else None)
    two = flow.each(source, name="two")(lambda document: {**document, "by": 2} if document["n"] in (2, 4) else None)
    flow.load(flow.any_of(one, two), files("out"), name="out")
    tried = try_flow(flow, RECORDS, spark=spark)
    assert [(each.document["n"], each.document["by"]) for each in tried.loaded["out"]] == [
        (0, 1),
        (1, 1),
        (2, 1),
        (2, 2),
        (4, 2),
    ]
    assert [each.id for each in tried.loaded["out"]] == ["t:0:0:0", "t:0:0:1", "t:0:0:2", "t:0:0:2:1", "t:0:0:4"]
    assert is_balanced(tried)


def test_a_call_on_the_way_to_several_outputs_is_made_once(spark: SparkSession, tmp_path: Any) -> None:
    flow = Flow("f")
    source = flow.source(topic("t"))

    @flow.each(source)
    def counted(document: dict[str, Any]) -> dict[str, Any]:
        with open(tmp_path / "calls", "a", encoding="utf-8") as file:
            file.write("x")
        return document

    picked = flow.each(counted, outputs=["a", "b"], name="picked")(lambda document: {"a": document, "b": document})
    for name in ("a", "b"):
        flow.load(picked[name], files(name), name=name)
    flow.load(counted, files("c"), name="c")
    flow.load(source, files("d"), name="d")
    tried = try_flow(flow, RECORDS, spark=spark)
    assert [len(tried.loaded[name]) for name in "abcd"] == [10, 10, 10, 10]
    assert (tmp_path / "calls").read_text(encoding="utf-8") == "x" * 10


def test_an_each_step_knows_its_delivery_id_and_hash(spark: SparkSession) -> None:
    flow = Flow("f")
    flow.load(
        flow.each(topic("t"), name="told")(lambda document, record: {"id": record.id, "hash": record.delivery_hash}),
        files("out"),
        name="out",
    )
    tried = try_flow(flow, RECORDS, spark=spark)
    assert set(given(tried, "out", "hash")) == {"try"}
    assert len(set(given(tried, "out", "id"))) == 10


@pytest.mark.parametrize("wrong", ["type", "dict", "gate", "topic", "each"])
def test_a_shape_that_cannot_be_is_refused_with_a_reason(spark: SparkSession, wrong: str) -> None:
    flow = Flow("f")
    source = flow.source(topic("t"), schema=SCHEMA)
    other = flow.source(
        topic("t" if wrong == "topic" else "o"), schema="n string" if wrong == "type" else SCHEMA, name="o"
    )
    match wrong:
        case "type" | "topic":
            last: Any = flow.step(flow.any_of(source, other), name="last")(lambda rows: rows)
            said = {"type": "'n' .*bigint and string", "topic": "'t'"}[wrong]
        case "dict":
            last = flow.fork(flow.any_of(source, other), outputs=["a"], name="last")(lambda rows: {"b": rows})["a"]
            said = "'last' .* b"
        case "gate":
            ruled = flow.step(flow.any_of(source, other), name="ruled")(expect("r", "n > 0")(lambda rows: rows))
            last = flow.step(ruled, name="last")(lambda rows: rows)
            said = "'ruled'"
        case _:
            each = flow.each(flow.any_of(source, other), outputs=["a"], name="each")(lambda document: {"a": document})
            last = flow.step(each["a"], name="last")(lambda rows: rows)
            said = "'each.a'"
    flow.load(last, files("out"), name="out")
    with pytest.raises(BadFlow, match=said):
        try_flow(flow, {"t": RECORDS, "o": []}, spark=spark)


@pytest.mark.parametrize("delivery", [pytest.param("at-least-once", marks=pytest.mark.part("flows")), "exactly-once"])
def test_shapes_at_work(embedded: World, delivery: str) -> None:
    """Two topics as alternatives, a fork in the JVM and one in Python; some is filtered, some fails."""
    world = embedded
    flow = Flow("f", delivery=delivery)
    clicks = flow.source(topic("clicks"), schema=SCHEMA)
    visits = flow.source(topic("visits"), schema="n bigint, who string")

    @flow.fork(flow.any_of(clicks, visits), outputs=("small", "big"))
    def sizes(rows: Any) -> Any:
        return {"small": rows.where("n < 60"), "big": rows.where("n >= 40 and n < 90")}

    @flow.each(sizes["big"], outputs=("even", "odd"), deterministic=True)
    def parity(row: dict[str, Any]) -> dict[str, Any]:
        if row["n"] == 50:
            raise ValueError("fifty")
        return {"odd" if row["n"] % 2 else "even": row}

    outputs = {"small": sizes["small"], "even": parity["even"], "odd": parity["odd"], "visits": visits}
    for name, node in outputs.items():
        flow.load(node, table(name, url=f"sqlite:///{world.home}/out.db", id="{n}"), name=name)
    world.send("clicks", [{"n": n, "name": "c"} for n in range(0, 100, 2)] + [b"["])
    world.send("visits", [{"n": n, "who": "v"} for n in range(1, 100, 2)])
    assert set(world.run(flow).values()) == {StageState.STOPPED}
    with sqlite3.connect(world.home / "out.db") as connection:
        found = {name: {int(row[0]) for row in connection.execute(f"select id from {name}")} for name in outputs}
    assert found == {
        "small": set(range(60)) - {50},
        "even": set(range(40, 90, 2)) - {50},
        "odd": set(range(41, 90, 2)),
        "visits": set(range(1, 100, 2)),
    }
    counts = world.counts(flow)
    assert (counts["read"], counts["failed"]) == (101, 2)
    assert counts["loaded"] + counts["filtered"] == 99
    assert counts["filtered"] == 5  # even numbers from 90 on; odd ones are in the last output
    assert {(one.topic, one.failure.code) for one in world.errors(flow)} == {("clicks", 7), ("clicks", 9)}
    assert Audit(world.runtime.database, world.runtime.log, "f").run().problems == []
