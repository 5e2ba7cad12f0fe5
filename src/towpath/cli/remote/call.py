"""What a command asks of the API, and how the answer is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from towpath.cli.remote.paging import paged
from towpath.cli.remote.server import Server, path_of

Options = dict[str, Any]  # of the command, as they were typed
Item = dict[str, Any]
Prepare = Callable[[Options], Options]
Shape = Callable[[Any], Any]
Show = Callable[[Any, Options], None]


@dataclass(frozen=True)
class Call:
    """`ask` gives what the command prints here with `--json`, and `show` shows that to people."""

    ask: Callable[[Server, Options], Any]
    show: Show
    is_failed: Callable[[Any, Options], bool] = lambda found, options: False
    never: Mapping[str, str] = field(default_factory=dict)  # options that cannot be had remotely, and why
    write: Callable[[Any], None] | None = None  # for programs, where that is not one document


def as_typed(options: Options) -> Options:
    return options


def as_answered(answer: Any) -> Any:
    return answer


def looking(path: str, *query: str, show: Show, prepare: Prepare = as_typed, shape: Shape = as_answered) -> Call:
    """One thing. `query` are options that go along; `about:subject` goes under another name."""

    def ask(server: Server, options: Options) -> Any:
        ready = prepare(options)
        return shape(server.look(path_of(path, ready), chosen(ready, query)))

    return Call(ask, show)


def listing(
    path: str,
    *query: str,
    show: Show,
    by: str = "before",
    prepare: Prepare = as_typed,
    each: Shape = as_answered,
    has_next: bool = True,
    never: Mapping[str, str] | None = None,
) -> Call:
    """So many things as the option `limit` says, or all; `by` is what goes on where a page ended."""

    def ask(server: Server, options: Options) -> Any:
        ready = prepare(options)
        page = paged(server, path_of(path, ready), chosen(ready, query), ready.get("limit"), by, ready.get(by))
        items = [each(item) for item in page.items]
        return {"items": items, "next": page.next} if has_next else {"items": items}

    return Call(ask, show, never=never or {})


def changing(path: str, *body: str, show: Show, prepare: Prepare = as_typed, shape: Shape = as_answered) -> Call:
    """A change; `body` are options that are sent, besides why."""

    def ask(server: Server, options: Options) -> Any:
        ready = prepare(options)
        return shape(server.change(path_of(path, ready), chosen(ready, (*body, "why"))))

    return Call(ask, show)


def chosen(options: Options, names: tuple[str, ...]) -> Item:
    """What was said, under the names of the API."""
    pairs = [each.partition(":") for each in names]
    return {(new or old): options[old] for old, _, new in pairs if options.get(old) is not None}


# How answers become what a command prints


def only(*names: str) -> Shape:
    return lambda answer: {name: answer[name] for name in names}


def without(*names: str) -> Shape:
    return lambda answer: {name: value for name, value in answer.items() if name not in names}
