"""Rows on several ways to several outputs: whatever functions do, a record is delivered as a whole or not at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.segments import TOPIC, Bench, Listing, call

from towpath.flow.worker.loader import OutputLoad
from towpath.flow.worker.preparer import CallPath, Columns

FAILS = 9

# What the functions do with one record: how many rows the fork gives to each of its outputs, and what comes of those.
records = st.lists(
    st.fixed_dictionaries(
        {
            "a": st.integers(0, 2),
            "b": st.integers(0, 2),
            "a_next": st.sampled_from([0, 1, 2, FAILS]),
            "direct": st.sampled_from([0, 1, FAILS]),
        }
    ),
    max_size=12,
)


def copies(document: dict[str, Any], count: int) -> list[dict[str, Any]]:
    if count == FAILS:
        raise ValueError("asked to")
    return [{**document, "at": at} for at in range(count)]


def fork(document: dict[str, Any]) -> dict[str, Any]:
    return {name: copies(document, document[name]) for name in ("a", "b")}


def expected(record: dict[str, Any]) -> dict[str, int] | None:
    """How many rows each output gets; None: the record fails."""
    if record["direct"] == FAILS or (record["a"] and record["a_next"] == FAILS):
        return None
    from_a = record["a"] * record["a_next"]
    return {"one": from_a + record["b"], "two": record["b"], "three": record["direct"]}


@settings(max_examples=60, deadline=None)
@given(records, st.integers(1, 5))
def test_a_record_is_delivered_as_a_whole_or_not_at_all(values: Sequence[dict[str, Any]], batch_rows: int) -> None:
    forking = replace(call(fork, "fork"), outputs=("a", "b"))
    following = call(lambda document: copies(document, document["a_next"]), "next")
    direct = call(lambda document: copies(document, document["direct"]), "direct")
    a, b = CallPath(None, (forking, "a", following), Columns()), CallPath(None, (forking, "b"), Columns())
    sinks = {name: Listing() for name in ("one", "two", "three")}
    loads = [
        OutputLoad("one", sinks["one"], (), Columns(), (a, b)),  # any of two ways
        OutputLoad("two", sinks["two"], (), Columns(), (b,)),
        OutputLoad("three", sinks["three"], (direct,), Columns()),
    ]
    with TemporaryDirectory() as home:
        outcome = Bench(Path(home), batch_rows=batch_rows).run([*values, b"{"], *loads)
        failures = {one.offset for one in outcome.failures}
    wanted = [expected(record) for record in values]
    assert failures == {at for at, each in enumerate(wanted) if each is None} | {len(values)}
    for name, sink in sinks.items():
        rows = [(at, number) for at, each in enumerate(wanted) if each for number in range(each[name])]
        assert sink.ids == [f"{TOPIC}:0:0:{at}" + (f":{number}" if number else "") for at, number in rows]
        assert Counter(orjson.loads(text)["a"] for text in sink.payloads) == Counter(values[at]["a"] for at, _ in rows)
    assert outcome.is_balanced
    assert outcome.loaded == sum(each is not None and any(each.values()) for each in wanted)
    assert len({id for sink in sinks.values() for id in sink.delivery_ids}) == sum(
        len(sink.ids) for sink in sinks.values()
    )


def test_a_call_that_several_ways_have_in_common_is_made_once_for_a_row(tmp_path: Path) -> None:
    calls: list[int] = []

    def counted(document: dict[str, Any]) -> dict[str, Any]:
        calls.append(document["n"])
        document["changed"] = True
        return document

    common = call(counted, "common")
    last = call(lambda document: document.pop("changed") and document, "last")
    plain, further = Listing(), Listing()
    Bench(tmp_path / "b").run(
        [{"n": n} for n in range(4)],
        OutputLoad("plain", plain, (), Columns(), (CallPath(None, (common,), Columns()),)),
        OutputLoad("further", further, (), Columns(), (CallPath(None, (common, last), Columns()),)),
    )
    assert calls == [0, 1, 2, 3]
    assert [orjson.loads(text) for text in plain.payloads] == [{"n": n, "changed": True} for n in range(4)]
    assert further.payloads == [b'{"n": %d}' % n for n in range(4)]
