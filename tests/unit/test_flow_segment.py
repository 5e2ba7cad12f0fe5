"""What happens to records in a Python worker: every one is loaded, filtered or reported, and none stops the others."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.segments import TOPIC, TOPIC_ID, Bench, Listing, call, load

from towpath.errors import SinkError
from towpath.flow.delivery.ids import DeliveryIds, Digest
from towpath.flow.failures import ErrorCode, RecordFailure
from towpath.flow.sinks.sink import Deliveries, Refusal
from towpath.flow.sinks.template import Template
from towpath.flow.worker.breadcrumb import Breadcrumb, suspects
from towpath.flow.worker.loader import WorkerFault


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "reports")


def codes(outcome: Any) -> dict[int, tuple[int, str]]:
    return {one.offset: (int(one.failure.code), one.failure.step) for one in outcome.failures}


def test_bytes_that_nobody_touches_arrive_as_they_were(bench: Bench) -> None:
    values = [b'{ "n" : 1.10, "big": 123456789012345678901234567890 }', b'{"e":1E+2,"s":"\\u0041"}']
    sink = Listing()
    bench.run(values, load(sink))
    assert sink.payloads == values
    assert sink.ids == ["clicks:0:0:0", "clicks:0:0:1"]


def test_bad_records_do_not_stop_the_others(bench: Bench) -> None:
    sink = Listing()
    outcome = bench.run([{"x": 1}, b"{", None, b"\xff", b"[]", {"x": "y" * 2000}, {"x": 2}], load(sink))
    assert sink.payloads == [b'{"x": 1}', b'{"x": 2}']
    assert codes(outcome) == {1: (7, TOPIC), 2: (7, TOPIC), 3: (7, TOPIC), 4: (8, TOPIC), 5: (4, TOPIC)}
    assert (outcome.read, outcome.loaded) == (7, 2)


def test_a_failure_carries_the_whole_record(bench: Bench) -> None:
    outcome = bench.run([b"nope"], load(Listing()))
    [failed] = outcome.failures
    assert failed[:7] == (TOPIC, 0, 0, 1_700_000_000_000, b"k0", b"nope", (("h", b"v"),))


def test_schema(bench: Bench) -> None:
    bench.schema = "x int not null"
    sink = Listing()
    outcome = bench.run([{"x": 1, "more": 1.50}, {"x": "1"}, {}, {"x": 5_000_000_000}], load(sink))
    assert sink.payloads == [b'{"x": 1, "more": 1.5}']
    assert codes(outcome) == {1: (8, TOPIC), 2: (8, TOPIC), 3: (8, TOPIC)}


def test_each_gives_none_one_or_several(bench: Bench) -> None:
    def work(document: dict[str, Any]) -> Any:
        return {0: None, 1: {**document, "new": 1}, 2: [{"a": 1}, {"b": 2}], 3: []}[document["x"]]

    sink = Listing()
    outcome = bench.run([{"x": at} for at in range(4)], load(sink, call(work)))
    assert sink.payloads == [b'{"x": 1,"new":1}', b'{"a":1}', b'{"b":2}']
    assert sink.ids == ["clicks:0:0:1", "clicks:0:0:2", "clicks:0:0:2:1"]
    assert outcome.filtered == Counter({"step": 2})
    assert (outcome.read, outcome.loaded, outcome.delivered["out"]) == (4, 2, 3)


def test_each_that_raises_or_gives_nonsense(bench: Bench) -> None:
    def work(document: dict[str, Any]) -> Any:
        if document["x"] == 1:
            raise KeyError("gone")
        if document["x"] == 2:
            raise SystemExit(3)
        return {3: "text", 4: [{}, 1], 5: {"x": object()}, 6: {"x": float("nan")}}.get(document["x"], document)

    sink = Listing()
    outcome = bench.run([{"x": at} for at in range(8)], load(sink, call(work)))
    assert sink.payloads == [b'{"x": 0}', b'{"x": 7}']
    assert {offset: code for offset, (code, _) in codes(outcome).items()} == dict.fromkeys(range(1, 7), 9)
    [raised] = [one.failure for one in outcome.failures if one.offset == 1]
    assert raised.exception == "KeyError"
    assert "work" in raised.trace


def test_changes_in_place_are_seen(bench: Bench) -> None:
    def work(document: dict[str, Any]) -> Any:
        document["list"].append(3)
        document["new"] = True
        return document

    sink = Listing()
    bench.run([b'{"n":1.0, "list":[1,2]}'], load(sink, call(work)))
    assert sink.payloads == [b'{"n":1.0, "list":[1,2,3],"new":true}']


def test_hidden_fields_make_names_and_are_not_written(bench: Bench) -> None:
    sink = Listing(target=Template("views-{_day}"), id=Template("{x}"))
    bench.run([{"x": 1}], load(sink, call(lambda document: {**document, "_day": "mon"})))
    assert (sink.taken[0].targets, sink.ids, sink.payloads) == (["views-mon"], ["1"], [b'{"x": 1}'])


def test_a_name_that_cannot_be_made_fails_its_record_only(bench: Bench) -> None:
    sink = Listing(target=Template("views-{day}"))
    outcome = bench.run([{"day": "a"}, {"day": None}, {"day": []}, {"day": "b"}], load(sink))
    assert [target for one in sink.taken for target in one.targets] == ["views-a", "views-b"]
    assert codes(outcome) == {1: (9, "out"), 2: (9, "out")}


def test_a_child_that_fails_takes_its_siblings_with_it(bench: Bench) -> None:
    """If one delivery of an input cannot be made, none of them is delivered: a replay would double the others."""
    children = call(lambda document: [{"day": "a"}, {"day": document["day"]}])
    sink = Listing(target=Template("views-{day}"))
    outcome = bench.run([{"day": "b"}, {"day": None}], load(sink, children))
    assert [target for one in sink.taken for target in one.targets] == ["views-a", "views-b"]
    assert codes(outcome) == {1: (9, "out")}


def test_an_input_that_fails_for_one_output_is_delivered_to_none(bench: Bench) -> None:
    one, two = Listing(), Listing(target=Template("{day}"))
    outcome = bench.run([{"day": "a"}, {"x": 1}], load(one, output="one"), load(two, output="two"))
    assert (one.payloads, two.payloads) == ([b'{"day": "a"}'], [b'{"day": "a"}'])
    assert (outcome.loaded, codes(outcome)) == (1, {1: (9, "two")})


def test_an_input_that_no_output_takes_was_filtered(bench: Bench) -> None:
    def only(parity: int) -> Any:
        return call(lambda document: document if document["x"] in (parity, 2) else None, step=f"only {parity}")

    one, two = Listing(), Listing()
    outcome = bench.run(
        [{"x": at} for at in range(4)], load(one, only(0), output="one"), load(two, only(1), output="two")
    )
    assert (len(one.payloads), len(two.payloads)) == (2, 2)
    assert (outcome.read, outcome.loaded, sum(outcome.filtered.values())) == (4, 3, 1)


def test_outputs_do_not_see_what_the_other_does_to_a_document(bench: Bench) -> None:
    def spoil(document: dict[str, Any]) -> Any:
        document["list"].clear()
        return document

    one, two = Listing(), Listing()
    bench.run([{"list": [1]}], load(one, call(spoil), output="one"), load(two, output="two"))
    assert (one.payloads, two.payloads) == ([b'{"list": []}'], [b'{"list": [1]}'])


def test_what_a_sink_refuses_is_not_loaded(bench: Bench) -> None:
    def refuse(deliveries: Deliveries) -> list[Refusal]:
        bad = [at for at, payload in enumerate(deliveries.payloads) if b"bad" in payload]
        return [Refusal(deliveries, at, ErrorCode.ITEM_REFUSED, "mapper", "does not fit") for at in bad]

    sink = Listing(on_write=refuse)
    outcome = bench.run([{"x": "good"}, {"x": "bad"}, {"x": "fine"}], load(sink))
    assert codes(outcome) == {1: (12, "out")}
    assert (outcome.read, outcome.loaded, outcome.delivered["out"]) == (3, 2, 2)
    [failed] = outcome.failures
    ids = DeliveryIds("flow", "stage", "out")
    assert failed.delivery_id == ids.of(TOPIC_ID, 0, 1, 0)
    kept = Digest()
    kept.add_many([ids.of(TOPIC_ID, 0, offset, 0) for offset in (0, 2)])
    assert outcome.digests == {"out": {"0": kept.hex}}


def test_an_input_with_two_refused_deliveries_has_failed_once(bench: Bench) -> None:
    def refuse(deliveries: Deliveries) -> list[Refusal]:
        return [Refusal(deliveries, at, ErrorCode.ITEM_REFUSED, "x", "no") for at in range(len(deliveries))]

    outcome = bench.run([{"x": 1}], load(Listing(on_write=refuse), call(lambda document: [document, document])))
    assert (outcome.read, outcome.loaded, outcome.failed) == (1, 0, Counter({12: 1}))
    assert len(list(outcome.failures)) == 1, "an input comes back once, whatever of it was refused"


def test_a_sink_that_takes_nothing_ends_the_task_without_a_report(bench: Bench) -> None:
    def away(deliveries: Deliveries) -> list[Refusal]:
        raise SinkError(ErrorCode.SINK_UNAVAILABLE, "index", "connection refused")

    sink = Listing(on_write=away)
    with pytest.raises(WorkerFault, match="connection refused"):
        bench.run([{"x": 1}], load(sink))
    assert sink.closed == 1
    assert list(bench.home.glob("*.json")) == []


def test_excluded_records_fail_without_being_read(bench: Bench) -> None:
    failure = RecordFailure(ErrorCode.TRANSFORM_FAILED, "step", "Died", "ends its worker")
    bench.excluded = {(TOPIC, 0): {1: failure}}
    seen: list[int] = []

    def note(document: dict[str, Any]) -> Any:
        seen.append(document["x"])
        return document

    outcome = bench.run([{"x": 0}, {"x": 1}, {"x": 2}], load(Listing(), call(note)))
    assert seen == [0, 2]
    assert codes(outcome) == {1: (9, "step")}


def test_functions_are_told_of_the_record_when_they_ask(bench: Bench) -> None:
    told: list[Any] = []

    def note(document: dict[str, Any], record: Any) -> Any:
        told.append(record)
        return document

    bench.run([{}], load(Listing(), call(note, wants_record=True)))
    [record] = told
    assert record[:6] == (TOPIC, 0, 0, 1_700_000_000_000, b"k0", (("h", b"v"),))
    assert record.id == DeliveryIds("flow", "stage", "").of(TOPIC_ID, 0, 0, 0).hex()


@pytest.mark.realtime
def test_a_call_over_its_time_is_ended(bench: Bench) -> None:
    def work(document: dict[str, Any]) -> Any:
        if document["x"] == 1:
            try:
                threading.Event().wait()  # by itself it would never come back
            except Exception:  # a function that catches all it can is interrupted all the same
                return document
        return document

    sink = Listing()
    outcome = bench.run([{"x": at} for at in range(3)], load(sink, call(work, timeout_s=0.2)))
    assert sink.payloads == [b'{"x": 0}', b'{"x": 2}']
    [failed] = outcome.failures
    assert (failed.offset, failed.failure.exception) == (1, "OverTime")


def test_a_worker_leaves_behind_where_it_was(tmp_path: Path) -> None:
    crumb = Breadcrumb(tmp_path / "segment0-0.at")
    crumb.enter("label")
    crumb.at(TOPIC, 3, 41)
    crumb.at(TOPIC, 3, 42)
    assert [each[:4] for each in suspects(tmp_path)] == [(TOPIC, 3, 42, "label")]
    crumb.leave()
    assert list(suspects(tmp_path)) == []
    crumb.close()
    assert list(tmp_path.iterdir()) == []


documents = st.dictionaries(st.sampled_from("abc"), st.integers(0, 5) | st.none(), max_size=3)
fates = st.sampled_from(["pass", "filter", "raise", "double", "refuse"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.lists(st.tuples(documents, fates) | st.sampled_from([b"{", b"1", None]), max_size=30))
def test_every_record_is_in_exactly_one_place(tmp_path_factory: Any, given: list[Any]) -> None:
    bench = Bench(tmp_path_factory.mktemp("place") / "reports", batch_rows=4)
    values = [{**one[0], "fate": one[1]} if isinstance(one, tuple) else one for one in given]

    def work(document: dict[str, Any]) -> Any:
        match document["fate"]:
            case "filter":
                return None
            case "raise":
                raise ValueError("raised")
            case "double":
                return [document, document]
        return document

    def refuse(deliveries: Deliveries) -> list[Refusal]:
        bad = [at for at, payload in enumerate(deliveries.payloads) if b"refuse" in payload]
        return [Refusal(deliveries, at, ErrorCode.ITEM_REFUSED, "x", "no") for at in bad]

    sink = Listing(on_write=refuse)
    outcome = bench.run(values, load(sink, call(work)))
    assert outcome.read == len(values)
    assert outcome.read == outcome.loaded + sum(outcome.filtered.values()) + sum(outcome.failed.values())
    expected = Counter(one[1] if isinstance(one, tuple) else "bad" for one in given)
    assert outcome.loaded == expected["pass"] + expected["double"]
    assert sum(outcome.filtered.values()) == expected["filter"]
    assert len({one.offset for one in outcome.failures}) == expected["bad"] + expected["raise"] + expected["refuse"]
    assert len(set(sink.delivery_ids)) == len(sink.delivery_ids)


def test_refusals_are_counted_whatever_is_freed_meanwhile(bench: Bench) -> None:
    """A sink that keeps nothing: chunks are freed, and later ones take their place in memory."""

    class Forgetful(Listing):
        def write(self, deliveries: Deliveries) -> list[Refusal]:
            return [Refusal(deliveries, at, ErrorCode.ITEM_REFUSED, "x", "no") for at in range(0, len(deliveries), 2)]

    bench.batch_rows = 4
    outcome = bench.run([{"n": n} for n in range(400)], load(Forgetful()))
    assert (outcome.read, outcome.loaded, outcome.failed) == (400, 200, Counter({12: 200}))


def test_an_input_that_two_outputs_refuse_has_failed_once(bench: Bench) -> None:
    def refuse(deliveries: Deliveries) -> list[Refusal]:
        return [Refusal(deliveries, at, ErrorCode.ITEM_REFUSED, "x", "no") for at in range(len(deliveries))]

    outcome = bench.run(
        [{"x": 1}], load(Listing(on_write=refuse), output="one"), load(Listing(on_write=refuse), output="two")
    )
    assert (outcome.read, outcome.loaded, outcome.failed) == (1, 0, Counter({12: 1}))
    assert [(one.output, one.also_refused) for one in outcome.failures] == [("one", ("two",))]


def test_schema_and_a_function_that_gives_several_and_fails_once(bench: Bench) -> None:
    bench.schema = "x int"

    def work(document: dict[str, Any]) -> Any:
        return [{"y": 1 // document["x"]}] * 3

    sink = Listing()
    outcome = bench.run([{"x": 1}, {"x": 0}, {"x": 2}], load(sink, call(work)))
    assert (len(sink.payloads), outcome.loaded, outcome.failed) == (6, 2, Counter({9: 1}))


@pytest.mark.realtime
def test_two_functions_with_time_limits(bench: Bench) -> None:
    def slow(document: dict[str, Any]) -> Any:
        if document["x"] == 1:
            threading.Event().wait(30)
        return document

    sink = Listing()
    outcome = bench.run(
        [{"x": at} for at in range(3)],
        load(sink, call(slow, "first", timeout_s=0.2), call(lambda document: document, "second", timeout_s=5.0)),
    )
    assert [(one.offset, one.failure.step, one.failure.exception) for one in outcome.failures] == [
        (1, "first", "OverTime")
    ]


def test_fields_of_the_record_that_begin_with_a_line_stay(bench: Bench) -> None:
    sink = Listing()
    bench.run([b'{"_id":7}'], load(sink, call(lambda document: {**document, "_id": 8, "_new": 1})))
    assert sink.payloads == [b'{"_id":8}']


def test_an_exception_that_cannot_be_shown(bench: Bench) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    def work(document: dict[str, Any]) -> Any:
        raise Mute

    outcome = bench.run([{}], load(Listing(), call(work)))
    [failed] = outcome.failures
    assert failed.failure.exception.endswith("Mute")
