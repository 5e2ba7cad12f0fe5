"""Write the pages of docs/reference that repeat the code. `--check` only says which are stale."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from typer.main import get_command

import towpath
from towpath import cli, errors, settings
from towpath.core import crash, events

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "reference"
SCHEMA = Path(towpath.__file__).parent / "db" / "schema"
NOTE = "<!-- Written by scripts/reference.py from the code. Change the code, then run `make docs`. -->"


def page(title: str, intro: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", NOTE, intro, *parts]).rstrip() + "\n"


def table(header: list[str], rows: list[list[str]]) -> str:
    cells = [header, ["---"] * len(header), *[[cell(text) for text in row] for row in rows]]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def prose(text: str | None) -> str:
    """A docstring as Markdown."""
    return inspect.cleandoc(text or "").strip()


# Command line


def cli_page() -> str:
    root = get_command(cli.app)
    return page(
        "Command line",
        "Every command explains itself with `--help`. Exit codes: 0 done, 1 failed, 2 wrong usage, "
        "3 not configured or not reachable.",
        *command_parts(root, "towpath", 2),
    )


def command_parts(command: Any, path: str, level: int) -> Iterator[str]:
    yield f"{'#' * level} `{path}`"
    if command.help:
        yield prose(command.help.split("\f")[0])
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not is_typer_own(p)]
    subcommands = {name: c for name, c in getattr(command, "commands", {}).items() if not c.hidden}
    yield f"```console\n$ {usage(path, arguments, bool(options), bool(subcommands))}\n```"
    if arguments:
        yield table(["argument", "what"], [[f"`{metavar(p)}`", described(p)] for p in arguments])
    if options:
        yield table(["option", "default", "what"], [[spelled(p), default(p), described(p)] for p in options])
    for name in sorted(subcommands):
        yield from command_parts(subcommands[name], f"{path} {name}", min(level + 1, 4))


def is_typer_own(param: Any) -> bool:
    return param.name in {"install_completion", "show_completion", "help"} or bool(param.hidden)


def usage(path: str, arguments: list[Any], has_options: bool, has_subcommands: bool) -> str:
    words = [path]
    words += ["[OPTIONS]"] if has_options else []
    words += [metavar(a) if a.required else f"[{metavar(a)}]" for a in arguments]
    words += ["COMMAND …"] if has_subcommands else []
    return " ".join(words)


def metavar(param: Any) -> str:
    return str(param.metavar or param.name.upper()) + ("…" if param.nargs == -1 else "")


def spelled(param: Any) -> str:
    names = ", ".join(f"`{name}`" for name in [*param.opts, *param.secondary_opts])
    if getattr(param, "is_flag", False):
        return names
    return f"{names} {param.metavar or type_name(param.type_descriptor.annotation)}"


def default(param: Any) -> str:
    if param.required:
        return "required"
    value = param.default
    if callable(value) or value is None or value is False or value in ((), [], ""):
        return ""
    return f"`{shown(value)}`"


def described(param: Any) -> str:
    text = getattr(param, "help", None) or ""
    variable = getattr(param, "envvar", None)
    return f"{text} Variable: `{variable}`." if variable else text


# Settings


def settings_page() -> str:
    return page(
        "Settings",
        "From the strongest to the weakest: a flag, an environment variable, the file `towpath.toml` in the "
        "working directory (or the file that `--config` or `TOWPATH_CONFIG` names), the default. A value "
        "that cannot be used is an error that names its place and its key. A relative path in the file or in a "
        "variable, also that of a SQLite database, is seen from the directory of the file; one in a flag from the "
        "working directory.",
        *settings_parts(settings.Settings, ()),
    )


def settings_parts(model: type[BaseModel], above: tuple[str, ...]) -> Iterator[str]:
    """The plain keys of a section as a table, then its subsections."""
    named = {field.alias or name: field for name, field in model.model_fields.items()}
    if above:
        yield f"## `[{'.'.join(above)}]`"
        yield prose(model.__doc__)
        if "NAME" in above:
            yield f"As a variable, all of them as JSON: `TOWPATH_{above[0].upper()}`"
        else:
            yield f"As variables, with the key in capitals: `TOWPATH_{'__'.join(above).upper()}__…`"
    rows = [setting_row(key, field) for key, field in named.items() if section_of(field) is None]
    if rows:
        yield table(["key", "type", "default", "what"], rows)
    for key, field in named.items():
        if section := section_of(field):
            yield from settings_parts(section, (*above, key) if section is field.annotation else (*above, key, "NAME"))


def section_of(field: FieldInfo) -> type[BaseModel] | None:
    """The model of a section, or of each of the sections that have names of their own."""
    kind = field.annotation
    if get_origin(kind) is dict:
        kind = get_args(kind)[1]
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def setting_row(key: str, field: FieldInfo) -> list[str]:
    start = "required" if field.is_required() else f"`{shown(field.get_default(call_default_factory=True))}`"
    return [f"`{key}`", type_name(field.annotation), start, field.description or ""]


def type_name(kind: Any) -> str:
    """A type as people say it: `full` or `normal`, float or none."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return type_name(inner[0])
    if origin is Literal:
        return " or ".join(f"`{choice}`" for choice in inner)
    if origin in (Union, UnionType):
        return " or ".join(type_name(part) for part in inner)
    if kind is NoneType:
        return "none"
    if origin is None and isinstance(kind, type):
        return enum_choices(kind) if issubclass(kind, Enum) else kind.__name__
    if origin is list and isinstance(inner[0], type) and issubclass(inner[0], BaseModel):
        return "list of tables"
    return str(kind)


def enum_choices(kind: type[Enum]) -> str:
    return " or ".join(f"`{member.value}`" for member in kind)


def shown(value: Any) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "none"
    if isinstance(value, float):
        return f"{value:g}" if value < 1e6 else f"{value:.0f}"
    return str(value) if value != "" else '""'


# Errors


def errors_page() -> str:
    return page(
        "Errors",
        "Every error that Towpath raises on purpose, in one tree (`towpath.errors`). The command line shows "
        "their text in one line; `--debug` adds the trace.",
        *error_parts(errors.TowpathError, 2),
    )


def error_parts(error: type[Exception], level: int) -> Iterator[str]:
    yield f"{'#' * level} `{error.__name__}`"
    if error.__bases__[0] is not Exception:
        yield f"A kind of `{error.__bases__[0].__name__}`."
    yield prose(own_doc(error))
    for child in own_subclasses(error):
        yield from error_parts(child, min(level + 1, 5))


def own_subclasses(error: type[Exception]) -> list[type[Exception]]:
    """In the order of the source. Subclasses that a user's code or a test made are not Towpath's."""
    return [child for child in error.__subclasses__() if child.__module__.startswith(f"{errors.__name__}.")]


def own_doc(thing: type) -> str:
    return thing.__doc__ or ""


# Events and crash points: enums with a comment for each member


def events_page() -> str:
    return page(
        "Events",
        "What can happen, in the past tense. `towpath event list` and `towpath event follow` show the events "
        "that were kept; code can subscribe to those of its own process.",
        table(["event", "subject and meaning"], [[f"`{n}`", text] for n, text in members(events, "EventKind")]),
        "## Crash points",
        "Places where a test can make a process die: see [Test with crash points]"
        "(../how-to/test-with-crash-points.md). Death before a commit undoes the whole act; death after it "
        "leaves the act done and whatever would have come next undone.",
        table(["point", "meaning"], [[f"`{n}`", text] for n, text in members(crash, "CrashPoint")]),
    )


def members(module: ModuleType, enum: str) -> list[tuple[str, str]]:
    """Value and comment of each member, read from the source since comments are gone at run time."""
    source = inspect.getsource(module)
    lines = source.splitlines()
    body = next(n for n in ast.parse(source).body if isinstance(n, ast.ClassDef) and n.name == enum).body
    found = []
    for node in body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            _, _, comment = lines[node.value.lineno - 1].partition("#")
            found.append((str(node.value.value), comment.strip()))
    return found


# Schema

STORES = {
    "sqlite": "SQLite: the main file",
    "sqlite_beats": "SQLite: the second file, for beats and lease times",
    "postgres": "PostgreSQL",
}


def schema_page() -> str:
    return page(
        "Schema",
        "The migrations, as they are run by `towpath schema upgrade`, oldest first. "
        "`towpath schema verify` compares a database with them.",
        *schema_parts(),
    )


def schema_parts() -> Iterator[str]:
    known = [name for name in STORES if (SCHEMA / name).is_dir()]
    others = sorted(p.name for p in SCHEMA.iterdir() if p.is_dir() and p.name not in STORES)
    for name in [*known, *others]:
        yield f"## {STORES.get(name, name)}"
        for path in sorted((SCHEMA / name).glob("*.sql")):
            yield f"### `{name}/{path.name}`"
            yield f"```sql\n{path.read_text(encoding='utf-8').strip()}\n```"


# JSON API


def api_page() -> str:
    from towpath.web.app import bare_app

    found = bare_app().openapi()
    return page(
        "JSON API",
        "What `towpath api run` answers; the same as OpenAPI is at `/api/v1/openapi.json`. How to get a key, and what "
        "all requests have in common: [Give people and programs access](../how-to/access.md). Whatever goes wrong is "
        '`{"error": {"code", "message", "details"}}`.',
        *api_parts(found),
        "## Bodies",
        *api_bodies(found["components"]["schemas"]),
    )


def api_parts(found: dict[str, Any]) -> Iterator[str]:
    tags: dict[str, list[tuple[str, str, dict[str, Any]]]] = {}
    for path, methods in found["paths"].items():
        for method, operation in methods.items():
            tags.setdefault(operation["tags"][0], []).append((method.upper(), path, operation))
    for tag, operations in tags.items():
        yield f"## {tag.capitalize()}"
        for method, path, operation in operations:
            yield f"### `{method} {path}`"
            yield prose(operation.get("description"))
            if facts := list(api_facts(operation)):
                yield "\n".join(f"- {fact}" for fact in facts)
            rows = [api_parameter(each) for each in operation.get("parameters", ())]
            if rows:
                yield table(["parameter", "in", "type", "what"], rows)


def api_facts(operation: dict[str, Any]) -> Iterator[str]:
    if scope := operation.get("x-scope"):
        yield f"Scope: `{scope}`"
    sent = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if sent:
        yield f"Body: {api_type(sent)}"
    for status, answer in operation["responses"].items():
        shown = answer.get("content", {}).get("application/json", {}).get("schema")
        if status.startswith("2") and shown:
            yield f"Answer, {status}: {api_type(shown)}"


def api_parameter(given: dict[str, Any]) -> list[str]:
    needed = " (required)" if given.get("required") else ""
    about = given.get("description") or given["schema"].get("description") or ""
    return [f"`{given['name']}`{needed}", given["in"], api_type(given["schema"]), about]


def api_bodies(schemas: dict[str, Any]) -> Iterator[str]:
    for name, schema in sorted(schemas.items()):
        if "Validation" in name:  # FastAPI's own shape of errors, which is not ours
            continue
        yield f"### `{name}`"
        yield prose(schema.get("description"))
        if "enum" in schema:
            yield " · ".join(f"`{each}`" for each in schema["enum"])
        needed = set(schema.get("required", ()))
        rows = [
            [f"`{key}`{' (required)' if key in needed else ''}", api_type(each), each.get("description", "")]
            for key, each in schema.get("properties", {}).items()
        ]
        if rows:
            yield table(["key", "type", "what"], rows)


def api_type(schema: dict[str, Any]) -> str:
    """A JSON schema in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(api_type(each) for each in schema["anyOf"]))
    if schema.get("type") == "array":
        return f"list of {api_type(schema['items'])}"
    return str(schema.get("format") or schema.get("type", "any"))


# The console


def console_page() -> str:
    from towpath.web.console.pages import PAGES as ROUTERS

    by_module: dict[str, list[APIRoute]] = {}
    for router in ROUTERS:
        for route in router.routes:
            if isinstance(route, APIRoute):
                by_module.setdefault(route.endpoint.__module__, []).append(route)
    return page(
        "Pages of the console",
        "What `towpath console` shows besides the [JSON API](api.md), and the forms on its pages. For operators: "
        "[Use the console](../how-to/use-the-console.md).",
        *(part for module, routes in by_module.items() for part in console_parts(sys.modules[module], routes)),
    )


def console_parts(module: ModuleType, routes: Sequence[APIRoute]) -> Iterator[str]:
    from towpath.web.auth import scopes_of

    rows = [
        [f"`{method} {route.path}`", prose(route.description), " or ".join(scopes_of(route)) or "open"]
        for route in routes
        for method in sorted(route.methods or ())
    ]
    for path, about, _ in rows:
        if not about:
            raise SystemExit(f"{path} of the console has no docstring: say what it is for")
    yield f"## {prose(module.__doc__).partition(chr(10))[0]}"
    yield table(["page or form", "what", "scope"], rows)


PAGE_WRITERS: dict[str, Callable[[], str]] = {
    "cli.md": cli_page,
    "settings.md": settings_page,
    "events.md": events_page,
    "errors.md": errors_page,
    "schema.md": schema_page,
    "api.md": api_page,
    "console.md": console_page,
}


def main(arguments: list[str]) -> int:
    stale = []
    for name, write in PAGE_WRITERS.items():
        path, text = PAGES / name, write()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if "--check" not in arguments:
                path.write_text(text, encoding="utf-8")
    if stale and "--check" in arguments:
        print(f"stale in docs/reference: {', '.join(stale)}. Type: make docs", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
