"""What is said about a flow that has changed since its last run, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from towpath.errors import BadFlow
from towpath.flow.delivery.ledger import BatchState
from towpath.flow.flow import Flow, expect
from towpath.flow.graph.sources import topic
from towpath.flow.graph.stages import Stage
from towpath.flow.sinks.sink import NullSink
from towpath.flow.sinks.template import Template
from towpath.flow.stage.comparison import OpenBatch, RemovedStage, changes, left_text, refusal, taken_over


def nowhere(target: str = "a", id: str | None = None) -> NullSink:
    return NullSink(Template(target), None if id is None else Template(id), None)


def same(given: Any) -> Any:
    return given


def stage(change: Callable[[Flow], Any] | None = None, **options: Any) -> Stage:
    """A source, a step, an each step, an output; or what `change` makes in their place."""
    flow = Flow("f", **options)
    (change or plain)(flow)
    [made] = flow.stages()
    return made


def plain(
    flow: Flow,
    schema: Any = "at bigint, url string",
    topics: tuple[str, ...] = ("clicks",),
    types: list[str] | None = None,
    deterministic: bool | None = None,
    sink: NullSink | None = None,
    name: str | None = "out",
    name_before: str | None = None,
    rule: str | None = None,
    extra: Any = "keep",
) -> Any:
    function = same if rule is None else expect("rule", rule)(lambda rows: rows)
    views = flow.step(topic(*topics), schema=schema, extra=extra, name="views", types=types)(function)
    label = flow.each(views, name="label", deterministic=deterministic)(same)
    flow.load(label, sink or nowhere(), name=name, name_before=name_before)
    return views, label


def with_options(**options: Any) -> Callable[[Flow], Any]:
    return lambda flow: plain(flow, **options)


def more(flow: Flow) -> None:
    _, label = plain(flow)
    flow.load(flow.each(label, name="more")(same), nowhere("b"), name="second")


def past_label(flow: Flow) -> None:
    views = flow.step(topic("clicks"), schema="at bigint, url string", name="views")(same)
    flow.load(views, nowhere(), name="out")


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (None, more, ["the each step more is new", "the output second is new; it gets records from the present"]),
        (more, None, ["the each step more is gone", "the output second is gone"]),
        (None, past_label, ["label is gone", "out loads what views gives, and loaded what label gave"]),
        (
            None,
            with_options(topics=("clicks", "visits")),
            ["called clicks+visits now", "reads the topic visits as well"],
        ),
        (with_options(topics=("clicks", "visits")), None, ["reads the topic visits no more; what lies there"]),
        (None, with_options(types=["view"]), ["step views takes view and took everything"]),
        (None, with_options(schema="at string, n int"), ["n INT is new, url is gone, at is STRING and was BIGINT"]),
        (None, with_options(schema=None), ["it had one, and has none"]),
        (None, with_options(schema="url string, at bigint not null"), ["at is BIGINT not null and was BIGINT"]),
        (None, with_options(extra="drop"), ["extra='drop' and had 'keep'"]),
        (None, with_options(rule="at > 0"), ["step views expects rule (at > 0) and expected nothing"]),
        (with_options(deterministic=True), None, ["label is not said to be deterministic any more"]),
        (None, with_options(deterministic=True), ["label is said to be deterministic now"]),
        (
            None,
            with_options(sink=nowhere("b")),
            ["out goes to nowhere, instead of b and went to nowhere, instead of a"],
        ),
        (None, with_options(sink=nowhere(id="{at}")), ["makes its ids of {at} and made them of the record's"]),
        (None, with_options(name="new"), ["out seems to be called new now, which is not declared"]),
        (None, with_options(name="new", name_before="out"), ["is called new now; its delivery ids keep the name out"]),
    ],
)
def test_each_change_is_told(before: Any, after: Any, said: list[str]) -> None:
    told = [change.text for change in changes(stage(before).topology(), stage(after).topology())]
    for part in said:
        assert [text for text in told if part.lower() in text.lower()], (part, told)


def test_what_has_not_changed_is_not_told() -> None:
    assert changes(stage(more).topology(), stage(more).topology(), "1", "1") == []


def test_a_new_version_and_a_new_promise_are_told() -> None:
    before, after = stage(delivery="at-least-once").topology(), stage(delivery="exactly-once").topology()
    found = changes(before, after, "1", "2")
    [version] = [each for each in found if "version" in each.text]
    assert not version.alters
    assert [each for each in found if "exactly-once" in each.text and "at-least-once" in each.text]


def test_what_an_older_version_did_not_keep_is_not_compared() -> None:
    old = {
        "topics": ["clicks"],
        "steps": [
            {"name": "clicks", "kind": "source", "inputs": []},
            {"name": "views", "kind": "step", "inputs": ["clicks"]},
            {"name": "label", "kind": "each", "inputs": ["views"]},
        ],
        "outputs": [{"name": "out", "input": "label", "sink": "nowhere, instead of a"}],
    }
    assert changes(old, stage().topology()) == []


@pytest.mark.parametrize("state", [BatchState.SNAPSHOT, BatchState.DECIDED, BatchState.AHEAD])
@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_a_batch_is_finished_as_it_was_begun(state: BatchState, delivery: str) -> None:
    """Otherwise a record could be in the output of the old shape and in that of the new one."""
    before = stage(more, delivery=delivery).topology()
    found = changes(before, stage(delivery=delivery).topology())
    why = refusal("f", "clicks", found, before, OpenBatch(7, state))
    if state is BatchState.SNAPSHOT and delivery == "at-least-once":
        assert why is None
    else:
        assert "batch 7 " in (why or "")
        assert "towpath flow reset f clicks" in (why or "")
    assert refusal("f", "clicks", found, before, None) is None


@pytest.mark.parametrize("state", [BatchState.SNAPSHOT, BatchState.AHEAD])
def test_a_flow_that_begins_to_be_exactly_once_goes_on_with_its_open_batch(state: BatchState) -> None:
    """What the batch has written until now has no marks and may be there twice, as was promised when it began."""
    before = stage(delivery="at-least-once").topology()
    found = changes(before, stage(delivery="exactly-once").topology())
    assert (refusal("f", "clicks", found, before, OpenBatch(0, state)) is None) == (state is BatchState.SNAPSHOT)


def test_what_does_not_alter_a_batch_is_not_refused() -> None:
    def added(flow: Flow) -> None:
        _, label = plain(flow, name="new", name_before="out", deterministic=True)
        flow.load(label, nowhere("b"), name="second")

    before = stage(delivery="exactly-once").topology()
    found = changes(before, stage(added, delivery="exactly-once").topology(), "1", "2")
    assert len(found) == 4
    assert refusal("f", "clicks", found, before, OpenBatch(7, BatchState.DECIDED)) is None


# Renames


def test_a_renamed_stage_keeps_the_name_under_which_it_began() -> None:
    def renamed(flow: Flow) -> None:
        plain(flow, topics=("a", "b", "c"))
        flow.renamed("a", "a+b")
        flow.renamed("a+b", "a+b+c")

    made = stage(renamed)
    assert (made.name, made.called, made.topics) == ("a", "a+b+c", ("a", "b", "c"))


def test_a_renamed_output_keeps_the_name_under_which_it_began() -> None:
    [output] = stage(with_options(name="new", name_before="old")).outputs
    assert (output.name, output.called) == ("old", "new")
    assert replace(output, sink=nowhere("b")).called == "new"


@pytest.mark.parametrize(
    ("renames", "said"),
    [
        ([("a", "nothing")], "'nothing'"),
        ([("clicks", "clicks")], "circle"),
        ([("a", "clicks"), ("clicks", "a")], "circle"),
        ([("a", "clicks"), ("b", "clicks")], "'a' .*'b'"),
    ],
)
def test_a_rename_that_cannot_be_is_refused(renames: list[tuple[str, str]], said: str) -> None:
    def renamed(flow: Flow) -> None:
        plain(flow)
        for old, new in renames:
            flow.renamed(old, new)

    with pytest.raises(BadFlow, match=said):
        stage(renamed)


def test_two_stages_cannot_go_on_as_one() -> None:
    flow = Flow("f")
    flow.load(topic("a"), nowhere(), name="one")
    flow.load(topic("b"), nowhere(), name="two")
    flow.renamed("a", "b")
    with pytest.raises(BadFlow, match="'a'"):
        flow.stages()


def test_two_outputs_cannot_have_been_one() -> None:
    flow = Flow("f")
    source = flow.source(topic("a"))
    flow.load(source, nowhere(), name="one")
    with pytest.raises(BadFlow, match="'two'"):
        flow.load(source, nowhere(), name="two", name_before="one")


# Stages that are not in the flow any more

A = RemovedStage("a", frozenset({"a"}))


@pytest.mark.parametrize(
    ("stage", "called", "topics", "begun", "said"),
    [
        ("a+b", "a+b", "ab", "", "flow.renamed('a', 'a+b'); otherwise towpath flow reset f a+b"),
        ("b", "a+b", "ab", "b", "towpath flow reset f b --to earliest"),  # another stage takes it over
        ("a+b", "a+b", "ab", "ab", None),  # somebody has reset it, or it runs since
        ("b", "b", "b", "", None),  # nothing in common
        ("a+b", "a", "a", "ab", "has read a"),  # declared, but the new one has run by itself meanwhile
    ],
)
def test_nobody_takes_over_a_topic_in_silence(
    stage: str, called: str, topics: str, begun: str, said: str | None
) -> None:
    found = taken_over("f", stage, called, [*topics, "f.reentry"], dict.fromkeys([*begun], ()), [A])
    assert found is None if said is None else found is not None and said in found


def test_what_is_left_behind_is_told_with_what_it_has_not_read() -> None:
    left = A._replace(unread=["a/0 from 3 to before 5"], open_batch=2)
    assert "batch" not in left_text(A)
    assert [part for part in ("batch 2 ", left.unread[0]) if part not in left_text(left)] == []
