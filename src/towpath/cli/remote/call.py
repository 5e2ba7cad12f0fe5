"""What a command asks of the API, and how the answer is shown: as a table, as fields of one thing, or as a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import typer

from towpath.cli.output import Column, age, console, plain, pretty, print_fields, print_older, print_table, time_and_age
from towpath.cli.remote.server import THEIRS, RemoteServer, is_time, paged, path_of
from towpath.core.exact_json import Exact, to_json

Options = dict[str, Any]  # of the command, as they were typed
Item = dict[str, Any]
Prepare = Callable[[Options], Options]
Shape = Callable[[Any], Any]
Show = Callable[[Any, Options], None]

CUT = "…"  # behind a title: this column may be cut


@dataclass(frozen=True)
class RemoteCall:
    """`ask` gives what the command prints here with `--json`, and `show` shows that to people."""

    ask: Callable[[RemoteServer, Options], Any]
    show: Show
    is_failed: Callable[[Any, Options], bool] = lambda found, options: False
    never: Mapping[str, str] = field(default_factory=dict)  # options that do not work remotely, and why
    write: Callable[[Any], None] | None = None  # for programs, where that is not one document


def as_typed(options: Options) -> Options:
    return options


def as_answered(answer: Any) -> Any:
    return answer


def looking(path: str, *query: str, show: Show, prepare: Prepare = as_typed, shape: Shape = as_answered) -> RemoteCall:
    """Look at one thing. `query` names options to send; `about:subject` sends `about` as `subject`."""

    def ask(server: RemoteServer, options: Options) -> Any:
        ready = prepare(options)
        return shape(server.look(path_of(path, ready), chosen(ready, query)))

    return RemoteCall(ask, show)


def listing(
    path: str,
    *query: str,
    show: Show,
    by: str = "before",
    prepare: Prepare = as_typed,
    each: Shape = as_answered,
    has_next: bool = True,
    never: Mapping[str, str] | None = None,
) -> RemoteCall:
    """List things, as many as `limit` says or all; `by` is the parameter with the cursor."""

    def ask(server: RemoteServer, options: Options) -> Any:
        ready = prepare(options)
        page = paged(server, path_of(path, ready), chosen(ready, query), ready.get("limit"), by, ready.get(by))
        items = [each(item) for item in page.items]
        return {"items": items, "next": page.next} if has_next else {"items": items}

    return RemoteCall(ask, show, never=never or {})


def changing(path: str, *body: str, show: Show, prepare: Prepare = as_typed, shape: Shape = as_answered) -> RemoteCall:
    """Change something; `body` names options to send, besides `why`."""

    def ask(server: RemoteServer, options: Options) -> Any:
        ready = prepare(options)
        return shape(server.change(path_of(path, ready), chosen(ready, (*body, "why"))))

    return RemoteCall(ask, show)


def chosen(options: Options, names: tuple[str, ...]) -> Item:
    """The options that were given, under their names in the API."""
    pairs = [each.partition(":") for each in names]
    return {(new or old): options[old] for old, _, new in pairs if options.get(old) is not None}


def filled(said: Mapping[str, Any]) -> Item:
    """The values that were given."""
    return {name: value for name, value in said.items() if value is not None}


# How answers become what a command prints
def only(*names: str) -> Shape:
    return lambda answer: {name: answer[name] for name in names}


def without(*names: str) -> Shape:
    return lambda answer: {name: value for name, value in answer.items() if name not in names}


def table(*columns: str, of: str = "items", nothing: str = "") -> Show:
    """`title=name` for each column; `name` alone is its own title, and `a.b` is `b` of `a`."""

    def show(found: Any, options: Options) -> None:
        print_items(found[of], columns)
        if nothing and not found[of]:
            console().print(nothing, style="dim")
        print_older(found.get("next"))

    return show


def print_items(items: Sequence[Any], columns: Sequence[str]) -> None:
    specs = [_spec(each) for each in columns]
    now = datetime.now(UTC)
    rows = [[cell(name, part_of(item, name), now) for _, name, _ in specs] for item in items]
    heads = [Column(title, whole, _is_numbers(items, name)) for title, name, whole in specs]
    print_table(heads, rows)


def fields(*parts: str) -> Show:
    """Show one thing: single values first, then each list as a table. `parts`: only these, in order."""

    def show(found: Any, options: Options) -> None:
        now = datetime.now(UTC)
        names = parts or tuple(found)
        single = [(name, found[name]) for name in names if name in found and not _is_part(found[name])]
        _print_single(single, now)
        for name in names:
            if name in found and _is_part(found[name]):
                _print_part(name, found[name])

    return show


def sentence(said: str | Callable[[Any, Options], str]) -> Show:
    """Say what was done; the sentence may name values of the answer or else of the options."""

    def show(found: Any, options: Options) -> None:
        text = said.format_map({**options, **found}) if isinstance(said, str) else said(found, options)
        typer.echo("\n".join(map(plain, text.split("\n"))))

    return show


def cell(name: str, value: Any, now: datetime) -> object:
    """A value in a column."""
    if value is None or isinstance(value, Exact):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return age(datetime.fromisoformat(value), now) if _is_moment(name, value) else value
    if isinstance(value, list) and not any(isinstance(each, dict | list) for each in value):
        return ", ".join(map(str, value)) or None
    if isinstance(value, dict) and not any(isinstance(each, dict | list) for each in value.values()):
        return " ".join(f"{key}={cell(key, each, now)}" for key, each in value.items() if each is not None)
    return to_json(value) if value else None


def _long(name: str, value: Any, now: datetime) -> object:
    if isinstance(value, str) and not isinstance(value, Exact) and _is_moment(name, value):
        return time_and_age(datetime.fromisoformat(value), now)
    return cell(name, value, now)


def _print_single(pairs: Sequence[tuple[str, Any]], now: datetime) -> None:
    shown = [(_words(name), _long(name, value, now)) for name, value in pairs]
    if any(value is not None for _, value in shown):
        print_fields(shown)


def _is_moment(name: str, value: str) -> bool:
    try:
        return is_time(name.rpartition(".")[2]) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _is_part(value: Any) -> bool:
    return (isinstance(value, dict) and bool(value)) or (
        isinstance(value, list) and any(isinstance(each, dict | list) for each in value)
    )


def _print_part(name: str, value: Any) -> None:
    console().print(f"\n{_words(name)}", style="bold")
    if isinstance(value, list) and all(isinstance(each, dict) for each in value):
        names = [key for key in value[0] if any(each.get(key) is not None for each in value)]
        print_items(value, [f"{_words(key)}{CUT}={key}" for key in names])
    elif isinstance(value, dict) and name not in THEIRS:
        _print_single(list(value.items()), datetime.now(UTC))
    else:
        typer.echo(pretty(value))


def _spec(text: str) -> tuple[str, str, bool]:
    title, sign, name = text.partition("=")
    shown = title.removesuffix(CUT)
    return shown, name if sign else shown, not title.endswith(CUT)


def part_of(item: Any, name: str) -> Any:
    """`b` of `a` for `a.b`; nothing, where a server says less."""
    for part in name.split("."):
        item = item.get(part) if isinstance(item, dict) else None
    return item


def _is_numbers(items: Sequence[Any], name: str) -> bool:
    values = [part_of(item, name) for item in items]
    return any(isinstance(each, Exact) for each in values) and all(
        each is None or isinstance(each, Exact) for each in values
    )


def _words(name: str) -> str:
    return name.removesuffix("_at").replace("_", " ")
