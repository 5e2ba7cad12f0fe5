"""What a flow file may say, and what it is told when it says something else."""

from __future__ import annotations

from typing import Any

import pytest

from towpath.errors import BadFlow
from towpath.flow.flow import Flow, expect
from towpath.flow.graph.sources import topic
from towpath.flow.graph.stages import mermaid
from towpath.flow.sinks.sink import NullSink
from towpath.flow.sinks.template import Template
from towpath.flow.stateful import field


def nowhere(target: str = "somewhere") -> NullSink:
    return NullSink(Template(target), None, None)


def same(given: Any) -> Any:
    return given


def test_topology_names_what_is_read_by_which_steps_into_what() -> None:
    flow = Flow("f")
    views = flow.step(topic("clicks"), schema="at bigint", name="views")(same)
    label = flow.each(views, name="label")(same)
    flow.load(label, nowhere("a"), name="out")
    [stage] = flow.stages()
    assert stage.name == "clicks"
    common: dict[str, Any] = {"expectations": {}, "takes": "", "deterministic": None}
    source: dict[str, Any] = {"topics": ["clicks"], "duplicates": "refuse", "extra": "keep", "rules": None}
    source |= {"columns": {"at": "bigint"}, "dedupe": None, "stateful": None, "join": None}
    assert stage.topology() == {
        "topics": ["clicks"],
        "called": "clicks",
        "delivery": "exactly-once",
        "steps": [
            {"name": "clicks", "kind": "source", "inputs": [], **common, **source},
            {"name": "views", "kind": "step", "inputs": ["clicks"], **common},
            {"name": "label", "kind": "each", "inputs": ["views"], **common},
        ],
        "outputs": [
            {"name": "out", "called": "out", "input": "label", "sink": str(nowhere("a")), "id": None},
        ],
    }


def test_what_shares_no_topic_runs_by_itself() -> None:
    flow = Flow("f")
    flow.load(topic("a"), nowhere(), name="one")
    flow.load(topic("b", "c"), nowhere(), name="two")
    assert [stage.name for stage in flow.stages()] == ["a", "b+c"]


def test_sources_of_one_topic_are_one_stage() -> None:
    """A record is read once, so it has one position."""
    flow = Flow("f")
    flow.load(flow.source(topic("a", "b")), nowhere(), name="one")
    flow.load(flow.source(topic("b"), name="again"), nowhere(), name="two")
    [stage] = flow.stages()
    assert stage.topics == ("a", "b")


def test_a_step_is_still_its_function() -> None:
    flow = Flow("f")

    @flow.each(topic("a"))
    def double(document: dict[str, int]) -> dict[str, int]:
        return {name: 2 * value for name, value in document.items()}

    assert double({"x": 2}) == {"x": 4}


def test_a_function_with_two_parameters_is_given_the_record() -> None:
    flow = Flow("f")

    @flow.each(topic("a"))
    def one(document: Any, record: Any) -> Any:
        return document

    assert one.wants_record


def test_expectations_come_in_the_order_in_which_they_are_written() -> None:
    flow = Flow("f")

    @flow.step(topic("a"), schema="x int")
    @expect("first", "x > 0")
    @expect("second", "x < 9")
    def checked(rows: Any) -> Any:
        return rows

    assert [rule.name for rule in checked.expectations] == ["first", "second"]


def unused(flow: Flow) -> None:
    flow.source(topic("b"))


def two_of_a_name(flow: Flow) -> None:
    flow.source(topic("a"))


def two_outputs_of_a_name(flow: Flow) -> None:
    flow.load(topic("z"), nowhere(), name="out")


def expectation_on_each(flow: Flow) -> None:
    flow.each(topic("q"), name="e")(expect("positive", "x > 0")(lambda document: document))


def expectation_without_schema(flow: Flow) -> None:
    flow.source(topic("q"), expect={"positive": "x > 0"})


def schema_of_a_step(flow: Flow) -> None:
    flow.step(flow.nodes[0], schema="x int")(same)


def step_of_another_flow(flow: Flow) -> None:
    flow.step(Flow("other").source(topic("a")))(same)


def no_input(flow: Flow) -> None:
    flow.step()(same)


def no_time(flow: Flow) -> None:
    flow.each(topic("q"), timeout_s=0)(same)


def field_in_a_source(flow: Flow) -> None:
    flow.source(topic("a-{x}"))


def wrong_schema(flow: Flow) -> None:
    flow.source(topic("q"), schema="x nosuchtype")


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        (unused, "'b'"),
        (two_of_a_name, "'a'"),
        (two_outputs_of_a_name, "'out'"),
        (expectation_on_each, "on a step"),
        (expectation_without_schema, "schema"),
        (schema_of_a_step, "schema="),
        (step_of_another_flow, "'f'"),
        (no_input, "input"),
        (no_time, "timeout_s"),
        (field_in_a_source, "fixed"),
        (wrong_schema, "nosuchtype"),
    ],
)
def test_mistakes_are_told(mistake: Any, said: str) -> None:
    flow = Flow("f")
    flow.load(topic("a"), nowhere(), name="out")
    with pytest.raises(BadFlow, match=said):
        mistake(flow)
        flow.stages()


@pytest.mark.parametrize("name", ["", "a b", "ä", "-x", "x" * 81, "a/b"])
def test_names_of_flows(name: str) -> None:
    with pytest.raises(BadFlow):
        Flow(name)


def test_a_flow_that_loads_nothing() -> None:
    flow = Flow("f")
    flow.source(topic("a"))
    with pytest.raises(BadFlow, match="loads"):
        flow.stages()


def test_another_delivery_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(BadFlow, match="'sometimes'"):
        Flow("f", delivery="sometimes")


def test_chart_escapes_what_users_write() -> None:
    flow = Flow("f")
    flow.load(flow.each(topic("a"), name='say "x"]')(same), nowhere("b"), name="out")
    chart = mermaid([stage.topology() for stage in flow.stages()])
    assert chart.splitlines() == [
        "flowchart LR",
        '    s0n0[/"a"/]',
        '    s0n1(["say #quot;x#quot;]"])',
        "    s0n0 --> s0n1",
        f'    s0n1 --> s0o0[("{nowhere("b")}")]',
    ]


def test_what_keeps_state_has_no_columns_for_functions_on_dataframes() -> None:
    flow = Flow("f")
    counted = flow.stateful(topic("a"), key=field("k"), name="counted")(lambda document, state: document)
    either = flow.any_of(counted, topic("b"))
    for made in (lambda: flow.step(counted), lambda: flow.step(either), lambda: flow.fork(either, outputs=("x", "y"))):
        with pytest.raises(BadFlow, match="'counted'"):
            made()
