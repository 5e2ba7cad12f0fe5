"""Bodies of bulk requests, whatever is in the ids and documents, and what `index` refuses to be made of."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.integration.test_sink_index import deliveries

from towpath.errors import BadFlow
from towpath.flow.sinks.index.sink import index
from towpath.flow.sinks.index.writer import BulkLayout, BulkPart, halves, quoted
from towpath.flow.sinks.sink import one_line, one_line_each

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
DOCUMENTS = st.dictionaries(TEXTS, st.integers(-(2**53), 2**53) | TEXTS, max_size=3)
ROWS = st.lists(st.tuples(TEXTS, TEXTS, TEXTS, DOCUMENTS, st.integers(0, 2**63 - 1)), min_size=1, max_size=12)


def lines(body: bytes) -> list[tuple[Any, Any]]:
    found = [orjson.loads(line) for line in body.removesuffix(b"\n").split(b"\n")]
    return list(zip(found[0::2], found[1::2], strict=True))


@given(ROWS, st.data())
def test_every_line_says_what_it_should(rows, data):
    ids, targets, routings, documents, versions = (list(column) for column in zip(*rows, strict=True))
    payloads = [orjson.dumps(each, option=data.draw(st.sampled_from([0, orjson.OPT_INDENT_2]))) for each in documents]
    some = deliveries(payloads, ids, targets, routings=routings, versions=versions)
    at = data.draw(st.permutations(range(len(rows)))) if data.draw(st.booleans()) else range(len(rows))
    body = BulkLayout("index", names_index=True, version="input").body([BulkPart(some, at)])
    assert lines(body) == [
        (
            {
                "index": {
                    "_id": ids[n],
                    "_index": targets[n],
                    "routing": routings[n],
                    "version": versions[n],
                    "version_type": "external_gte",
                }
            },
            documents[n],
        )
        for n in at
    ]


def test_a_plain_document_is_sent_byte_by_byte():
    some = deliveries([b'{"a" :1.0,"b":  "\xc3\xa4"}', b"{}"])
    body = BulkLayout("create", names_index=False, version=None).body(
        [BulkPart(some, [0]), BulkPart(some, range(1, 2))]
    )
    assert body == b'{"create":{"_id":"id-0"}}\n{"a" :1.0,"b":  "\xc3\xa4"}\n{"create":{"_id":"id-1"}}\n{}\n'


@given(st.lists(TEXTS, min_size=1, max_size=20))
def test_quoted_texts_can_be_read_back(texts):
    assert [orjson.loads(each) for each in quoted(texts)] == texts


@given(DOCUMENTS, st.sampled_from([b"\n", b"\r", b"\r\n"]))
def test_one_line_is_the_same_json(document, end):
    text = orjson.dumps(document, option=orjson.OPT_INDENT_2).replace(b"\n", end)
    assert orjson.loads(one_line(text)) == document
    assert not {10, 13} & set(one_line(text))


def test_lines_without_an_end_are_not_copied():
    payloads = [b'{"a": 1}', b"{}"]
    assert one_line_each(payloads) is payloads


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6).filter(lambda sizes: sum(sizes) > 1))
def test_halves_are_everything_in_order(sizes):
    some = deliveries([{}] * max(sizes))
    parts = [BulkPart(some, range(size)) for size in sizes]
    left, right = halves(parts)
    flat = [(id(part.deliveries), at) for part in parts for at in part.at]
    assert [(id(part.deliveries), at) for part in [*left, *right] for at in part.at] == flat
    counts = [sum(len(part.at) for part in half) for half in (left, right)]
    assert abs(counts[0] - counts[1]) <= 1
    assert all(part.at for part in [*left, *right])


@pytest.mark.parametrize("name", ["Upper", "a b", "_a", "-a", ".a", "a/b", "a*", 'a"b', "a,b", "a#b", "a:b", "a" * 256])
def test_a_fixed_name_that_no_index_can_have_is_refused_at_once(name):
    with pytest.raises(BadFlow):
        index(name)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"url": "127.0.0.1:9200"}, "http://host:port"),
        ({"url": "http://ann:secret@host:9200"}, "password"),
        ({"url": "http://host:9200/?a=b"}, "http://host:port"),
        ({"username": "ann"}, "together"),
        ({"password": "secret"}, "together"),
        ({"username": "ann", "password": "secret", "password_env": "NAME"}, "one of"),
        ({"api_key": "secret", "api_key_env": "NAME"}, "one of"),
        ({"op": "delete"}, "op"),
        ({"version": ""}, "version"),
        ({"op": "create", "version": "at"}, "meaning"),
        ({"max_items": 0}, "max_items"),
        ({"max_bytes": 0}, "max_bytes"),
        ({"in_flight": 0}, "in_flight"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"ca": "/no/such/file.pem"}, "/no/such/file.pem"),
    ],
)
def test_options_that_cannot_work_are_refused_at_once(options, says):
    with pytest.raises(BadFlow, match=says) as caught:
        index("views", **options)
    assert "secret" not in str(caught.value)


def test_compression_is_for_other_machines():
    assert not index("a").address.gzip
    assert not index("a", url="http://localhost:9200").address.gzip
    assert index("a", url="https://search.example.org").address.gzip
    assert not index("a", url="https://search.example.org", gzip=False).address.gzip


def test_a_version_is_only_sent_where_it_decides():
    assert index("a").version is None
    assert index("a", id="{x}").version == "input"
    assert index("a", id="{x}", version=None).version is None
    assert index("a", id="{x}", op="create").version is None
