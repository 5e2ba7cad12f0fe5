"""Forms of pages, as browsers send them: `name=value&name=value`. They hold no files."""

from __future__ import annotations

from collections import Counter
from urllib.parse import parse_qsl

from fastapi import Request

from towpath.errors import BadValue

TOKEN_FIELD = "token"  # noqa: S105 - a name
MOST_FIELDS = 10_100
_KIND = "application/x-www-form-urlencoded"


class Form:
    """What was filled in. A field that is not there is empty."""

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self._fields = fields

    def one(self, name: str) -> str:
        """The last value of a field, as it is."""
        return next((value for key, value in reversed(self._fields) if key == name), "")

    def text(self, name: str) -> str:
        """The same without space around it."""
        return self.one(name).strip()

    def lines(self, name: str) -> str:
        """A text of several lines, with the ends that it had before a browser sent it."""
        return self.one(name).replace("\r\n", "\n")

    def maybe(self, name: str) -> str | None:
        """Nothing was filled in: none."""
        return self.text(name) or None

    def all(self, name: str) -> list[str]:
        """Every value: of boxes that were ticked."""
        return [value for key, value in self._fields if key == name]

    def written(self) -> list[tuple[str, str]]:
        """Fields with something in them, without those of which there are several: they were ticked, not written."""
        times = Counter(name for name, _ in self._fields)
        return [(name, value) for name, value in self._fields if value and times[name] == 1]

    def is_ticked(self, name: str) -> bool:
        return self.one(name) != ""

    def number(self, name: str) -> float | None:
        """A number, none when nothing was filled in."""
        text = self.maybe(name)
        if text is None:
            return None
        try:
            value = float(text)
        except ValueError:
            raise BadValue(f"{name}: {text!r} is not a number") from None
        if value != value or value in (float("inf"), float("-inf")):
            raise BadValue(f"{name}: {text!r} is not a number")
        return value

    def whole(self, name: str) -> int | None:
        """A whole number, none when nothing was filled in."""
        text = self.maybe(name)
        if text is None:
            return None
        if not text.lstrip("-").isdecimal() or not text.isascii() or len(text) > 18:
            raise BadValue(f"{name}: {text!r} is not a whole number")
        return int(text)


def form_of(request: Request) -> Form:
    """The form that came with a request; an empty one when there is none."""
    found: Form | None = getattr(request.state, "form", None)
    if found is None:
        request.state.form = found = _read(request)
    return found


def _read(request: Request) -> Form:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _KIND:
        return Form([])
    body: bytes = getattr(request.state, "body", b"")
    try:
        fields = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(body),
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
    except ValueError:
        raise BadValue("the form cannot be read") from None
    if any("\x00" in part for field in fields for part in field):
        raise BadValue("a NUL character stands in the form")
    return Form(fields)
