"""What not everybody may see: in bodies, keys, headers, messages, searches and differences."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.desk.edit_body import diff
from towpath.desk.masks import MASK, Mask, Masks, sees_all

SECRET = "jane@example.org"  # noqa: S105 - of nobody


def masked(document: object, *paths: str) -> object:
    value = Mask.of(paths).value(json.dumps(document).encode())
    assert value is not None
    return json.loads(value)


@pytest.mark.parametrize(
    ("document", "path", "wanted"),
    [
        ({"email": SECRET, "id": 1}, "email", {"email": MASK, "id": 1}),
        ({"customer": {"email": SECRET, "x": 1}}, "customer.email", {"customer": {"email": MASK, "x": 1}}),
        ({"lines": [{"card": 1}, {"card": 2}, 3]}, "lines.card", {"lines": [{"card": MASK}, {"card": MASK}, 3]}),
        ({"customer": SECRET}, "customer.email", {"customer": MASK}),  # of another type than expected
        ({"customer": None}, "customer.email", {"customer": MASK}),
        ({"customer": {"email": {"home": SECRET}}}, "customer.email", {"customer": {"email": MASK}}),
        ({"id": 1}, "email", {"id": 1}),
        ({"a.b": 1}, "a.b", {"a.b": 1}),
    ],
)
def test_fields_by_path(document: object, path: str, wanted: object) -> None:
    assert masked(document, path) == wanted


@pytest.mark.parametrize("body", [b"\xff\xfe", b"not json", b"[1]", b'"text"', b'{"email":1e400}', b""])
def test_what_cannot_be_taken_apart_is_hidden_whole(body: bytes) -> None:
    assert Mask.of(["email"]).value(body) == MASK.encode()


def test_without_paths_nothing_is_hidden() -> None:
    assert Mask.of(["$key"]).value(b"\xff") == b"\xff"
    assert not Mask.of([])
    assert Mask.of(["$key"])
    assert Mask.of(["$headers.auth"])


def test_key_and_headers() -> None:
    mask = Mask.of(["$key", "$headers.auth"])
    assert mask.key(b"jane") == MASK.encode()
    assert mask.key(None) is None
    assert mask.header_values((("auth", b"x"), ("other", b"y"))) == (("auth", MASK.encode()), ("other", b"y"))


def test_what_was_said_about_a_field_is_hidden_too() -> None:
    mask = Mask.of(["email", "$key"])
    body = json.dumps({"email": SECRET, "n": 1}).encode()
    assert (
        mask.text(f"{SECRET} is not an address of key 4711", [body], b"4711")
        == f"{MASK} is not an address of key {MASK}"
    )
    assert mask.text(f"anything about {SECRET}", [None]) == MASK  # the body is gone: nobody can tell
    assert mask.text(f"near {SECRET}", [SECRET.encode()]) == MASK  # it cannot be taken apart: nobody can tell either
    assert mask.text(f"near {SECRET}", [b'{"email":"%s",' % SECRET.encode()]) == MASK


def test_all_flows_and_one() -> None:
    masks = Masks({"*": ["iban"], "shop": ["email"]})
    assert masks
    assert not Masks({})
    assert not Masks({"shop": []})
    assert masks.of("shop").paths == (("iban",), ("email",))
    assert masks.of("other").paths == (("iban",),)


@pytest.mark.parametrize(
    ("role", "lowest", "sees"),
    [("viewer", "viewer", True), ("viewer", "operator", False), ("operator", "admin", False), ("admin", "admin", True)],
)
def test_roles(role: str, lowest: str, sees: bool) -> None:
    assert sees_all(role, lowest) is sees


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from("abc"), _json, max_size=3), st.sampled_from(["a", "a.b", "a.b.c", "c.a"]))
def test_a_secret_never_comes_through(document: dict[str, object], path: str) -> None:
    secret = "the-secret"  # noqa: S105
    at: object = document
    *above, last = path.split(".")
    for name in above:
        if not isinstance(at, dict):
            return
        at = at.setdefault(name, {})
    if not isinstance(at, dict):
        return
    at[last] = secret
    value = Mask.of([path]).value(json.dumps(document).encode())
    assert value is not None
    assert secret.encode() not in value


@pytest.mark.parametrize("depth", [253, 254, 300, 1000, 1023, 1024, 100_000])
@pytest.mark.parametrize("path", ["email", "x.y"])
def test_however_deep_a_body_is_nested(depth: int, path: str) -> None:
    """What can be read cannot always be written, or be walked through."""
    mask = Mask.of([path])
    for inner in (b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth):
        body = b'{"email":"%s","x":%s}' % (SECRET.encode(), inner)
        assert SECRET.encode() not in (mask.value(body) or b"") or path == "x.y"
        assert mask.text("said", [body]) in ("said", MASK)
        assert diff(body, b'{"a":1}')
