"""What settings and flow say about uploads is held together before anything starts."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from towpath import Flow, collect, files, result, topic
from towpath.errors import BadFlow
from towpath.gateway.completion.plan import ClosingPlan
from towpath.gateway.outlet.store import Declared, ResultKind
from towpath.gateway.uploads.streams import Streams
from towpath.settings import GatewaySettings


def flow_of(*sinks: Any, stream_of_step: str | None = None, **at_end: Any) -> Flow:
    flow = Flow("f")
    source = flow.source(topic("s"))
    for number, sink in enumerate(sinks or (files("out"),)):
        flow.load(source, sink, name=f"o{number}")
    if stream_of_step is not None:
        flow.at_end(stream_of_step, **{"result": "fastest", "collected": "rows", **at_end})(lambda rows: rows)
    return flow


def plan_of(flow: Flow, *results: str) -> ClosingPlan:
    settings = GatewaySettings.model_validate({"streams": {"s": {"flow": "f", "results": list(results)}}})
    return ClosingPlan.of(flow, Streams(settings).of_flow("f"))


def test_results_are_what_the_flow_loads_and_computes() -> None:
    flow = flow_of(
        result("stops", columns=("id",)), collect("rows", schema="id int"), stream_of_step="s", columns=["a"]
    )
    plan = plan_of(flow, "stops", "fastest")
    assert plan.streams["s"].results == (
        Declared("stops", ResultKind.STREAMED, ("s",), ("id",)),
        Declared("fastest", ResultKind.CLOSING, (), ("a",)),
    )
    assert (plan.collections["rows"].stages, plan.collections["rows"].schema) == (("s",), "id int")
    assert plan.streams["s"].route.direct == {"s": ("s",)}


def test_the_stages_of_a_query_stand_in_the_order_of_the_data() -> None:
    flow = Flow("f")
    first, second = flow.source(topic("s")), flow.source(topic("a"))
    flow.load(first, topic("a"))
    flow.load(second, result("stops"), name="mended")
    flow.load(first, result("stops"), name="stops")
    assert plan_of(flow, "stops").streams["s"].results[0].stages == ("s", "a")


def test_a_flow_without_streams_and_results_has_nothing_to_do() -> None:
    assert ClosingPlan.of(flow_of(), []).streams == {}


WRONG: list[tuple[Callable[[], Flow], tuple[str, ...], str]] = [
    (lambda: flow_of(), ("stops",), "'stops'"),
    (lambda: flow_of(result("stops")), (), "'stops', which no stream"),
    (lambda: flow_of(collect("rows", schema="a int"), stream_of_step="t"), (), "'t'"),
    (lambda: flow_of(collect("rows", schema="a int"), stream_of_step="s"), (), "'fastest'"),
    (lambda: flow_of(stream_of_step="s"), ("fastest",), "'rows'"),
    (lambda: flow_of(collect("rows"), stream_of_step="s"), ("fastest",), "columns"),
    (
        lambda: flow_of(result("fastest"), collect("rows", schema="a int"), stream_of_step="s"),
        ("fastest",),
        "both",
    ),
    (lambda: flow_of(collect("rows", schema="a int"), collect("rows", schema="b int")), (), "two schemas"),
]


@pytest.mark.parametrize(("make", "results", "said"), WRONG)
def test_what_does_not_fit_is_told(make: Callable[[], Flow], results: tuple[str, ...], said: str) -> None:
    with pytest.raises(BadFlow, match=said):
        plan_of(make(), *results)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: collect("a/b"), "letters"),
        (lambda: result(""), "letters"),
        (lambda: result("a", columns=[]), "names"),
        (lambda: result("a", columns=["x", "x"]), "names"),
        (lambda: collect("a", upload="x y"), "field"),
        (lambda: collect("a", schema="no such type"), "no"),
        (lambda: collect("a").frame(None), "schema"),  # type: ignore[arg-type]
        (lambda: flow_of(stream_of_step="s", collected=()), "collected="),
        (lambda: flow_of(stream_of_step="s", collected=["a", "a"]), "once"),
        (lambda: flow_of(stream_of_step="s", order_by=["a", ""]), "order_by="),
    ],
)
def test_wrong_declarations_are_told_where_they_stand(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(BadFlow, match=said):
        make()


def test_two_steps_cannot_give_one_result() -> None:
    flow = flow_of(collect("rows", schema="a int"), stream_of_step="s")
    with pytest.raises(BadFlow, match="two"):
        flow.at_end("s", result="fastest", collected="rows")(lambda rows: rows)


def test_the_flow_of_the_how_to_gives_what_its_settings_promise() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "close-an-upload.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(toml|python)\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    settings = tomllib.loads("".join(text for kind, text in blocks if kind == "toml"))
    scope: dict[str, Any] = {}
    exec("".join(text for kind, text in blocks if kind == "python"), scope)
    streams = Streams(GatewaySettings.model_validate(settings["gateway"]))
    plan = ClosingPlan.of(scope["flow"], streams.of_flow("shop")).streams["shop"]
    assert {each.query: each.kind for each in plan.results} == {"large": "streamed", "totals": "closing"}
    assert plan.route.direct == {"prices": ("shop.prices",), "orders": ("shop.orders",)}
