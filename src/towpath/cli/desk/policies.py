"""`towpath desk policy`: what is done about the errors of flows."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from towpath.cli.context import UsageError, open_runtime
from towpath.cli.options import AsJson, Who, Why
from towpath.cli.output import Column, print_done, print_fields, print_json, print_table
from towpath.errors import UnknownPolicy

if TYPE_CHECKING:
    from towpath.desk.policies.service import PolicyTrial
    from towpath.desk.policies.store import Version
    from towpath.policy import Rule


app = typer.Typer(help="See, set and try out the rules for the errors of flows.", no_args_is_help=True)

FlowName = Annotated[str, typer.Argument(metavar="FLOW", show_default=False, help="The flow.")]
File = Annotated[
    str | None,
    typer.Option(
        "--file", metavar="FILE", help="Rules as TOML ([[rule]] tables) or JSON (a list); `-` reads standard input."
    ),
]
Said = Annotated[
    list[str] | None,
    typer.Option("--rule", metavar="JSON", help="A rule as a JSON object; again for each further one."),
]

_COLUMNS = (
    Column("rule", whole=True),
    Column("does"),
    Column("step"),
    Column("code", right=True, whole=True),
    Column("exception"),
    Column("where"),
    Column("set by"),
)
_CAUGHT = (
    Column("rule", whole=True),
    Column("does"),
    Column("cases", right=True, whole=True),
    Column("would have been"),
    Column("unreadable", right=True, whole=True),
)


@app.command("list")
def list_(
    ctx: typer.Context,
    flow: Annotated[str | None, typer.Option(metavar="FLOW", help="Only those for this flow.")] = None,
    as_json: AsJson = False,
) -> None:
    """The rules that count now, in the order in which they are asked: those of operators before those in the code."""
    with open_runtime(ctx) as runtime:
        found = runtime.policies.current(flow)
    if as_json:
        print_json({"items": [_item(each) for each in found]})
    else:
        print_table(_COLUMNS, [cells for version in found for cells in _rows(version)])


@app.command()
def show(ctx: typer.Context, flow: FlowName, as_json: AsJson = False) -> None:
    """All versions of a flow's rules, the newest first: who has set them, when and why."""
    with open_runtime(ctx) as runtime:
        found = runtime.policies.versions(flow)
    if not found:
        raise UnknownPolicy(f"nothing was ever said about the errors of {flow!r}: they are isolated")
    if as_json:
        print_json({"items": [_item(each) for each in found]})
        return
    for version in found:
        print_fields(
            [
                ("version", f"{version.flow}/{version.origin}/{version.version}"),
                ("set by", version.who),
                ("why", version.why),
                ("at", f"{version.made_at:%Y-%m-%d %H:%M:%S}"),
                ("error topic", version.error_topic),
            ]
        )
        for cells in _rows(version):
            typer.echo(f"  {' '.join(str(cell) for cell in cells[:-1] if cell is not None)}")
        typer.echo()


@app.command("set")
def set_(
    ctx: typer.Context,
    flow: FlowName,
    why: Why,
    file: File = None,
    rule: Said = None,
    add: Annotated[
        bool, typer.Option("--add", help="Put them before the operators' rules that there are, not in their place.")
    ] = False,
    after: Annotated[
        int | None, typer.Option(min=0, metavar="VERSION", help="Refuse when another version counts by now.")
    ] = None,
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Put rules before those in the flow's code. They count for errors that come from now on."""
    from towpath.desk.policies.store import PolicyOrigin

    rules = read_rules(file, rule)
    with open_runtime(ctx) as runtime:
        policies = runtime.policies
        now = next((each for each in policies.current(flow) if each.origin is PolicyOrigin.OPERATOR), None)
        if add and now is not None:
            rules = [*rules, *(named.rule for named in now.rules)]
            after = now.version if after is None else after
        made = policies.set(flow, rules, who=who, why=why, after=after)
    text = f"version {made.version} of the operators' rules for {flow} counts: {len(rules)} rules"
    print_done(_item(made), text, as_json)


@app.command()
def withdraw(
    ctx: typer.Context,
    flow: FlowName,
    number: Annotated[
        int, typer.Argument(min=0, metavar="NUMBER", show_default=False, help="The last part of the rule's name.")
    ],
    why: Why,
    open_: Annotated[
        bool | None,
        typer.Option(
            "--open/--leave", show_default=False, help="What the rule has ignored: open it as cases, or leave it so."
        ),
    ] = None,
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Take away one of the operators' rules; what it has ignored can be put in front of persons."""
    with open_runtime(ctx) as runtime:
        policies = runtime.policies
        gone = policies.withdraw(flow, number, who=who, why=why)
        opens = gone.ignored > 0 and (_wants(gone.ignored) if open_ is None else open_)
        opened = policies.open_ignored(flow, gone.ids, who=who, why=why) if opens else 0
    if as_json:
        print_json({**_item(gone.version), "ignored": gone.ignored, "opened": opened})
        return
    typer.echo(f"version {gone.version.version} of the operators' rules for {flow} counts, without that rule")
    if gone.ignored:
        typer.echo(f"it has ignored {gone.ignored} cases; {opened} of them are open now")


@app.command("try")
def try_(
    ctx: typer.Context,
    flow: FlowName,
    file: File = None,
    rule: Said = None,
    most: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many cases to look at, the newest first.")
    ] = 100_000,
    as_json: AsJson = False,
) -> None:
    """Say how many of the present cases each rule would have caught. Changes nothing.

    Without rules given, those that count now are tried; otherwise the given ones in place of the operators'.
    """
    rules = read_rules(file, rule) if file or rule else None
    with open_runtime(ctx) as runtime:
        found = runtime.policies.try_out(flow, rules, most=most)
    if as_json:
        print_json(_trial(found))
        return
    print_table(_CAUGHT, [_caught(each) for each in _trial(found)["rules"]])
    typer.echo(
        f"{found.cases} cases{'' if found.is_all else ', the newest'}; {found.uncaught} would be isolated by no rule"
    )


def read_rules(file: str | None, said: list[str] | None) -> list[Rule]:
    """The rules of the option `--file` or `--rule`."""
    from towpath.policy import Rule

    if (file is None) == (not said):
        raise UsageError("give the rules: --file FILE, or --rule JSON for each")
    given = _from_file(file) if file is not None else [_from_json(each, "--rule") for each in said or []]
    if not isinstance(given, list):
        raise UsageError("rules are a list: [[rule]] tables in TOML, or a JSON array")
    return [Rule.from_json(each) for each in given]


def _wants(ignored: int) -> bool:
    """Ask a person at a terminal; without one nothing is opened."""
    return sys.stdin.isatty() and typer.confirm(f"it has ignored {ignored} cases; open them?", err=True)


def _from_file(file: str) -> Any:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from None
    if file.endswith(".json") or text.lstrip().startswith(("[{", "{")):
        return _from_json(text, file)
    try:
        return tomllib.loads(text).get("rule", [])
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{file} is not valid TOML: {error}") from None


def _from_json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(f"{where} is not valid JSON: {error}") from None


def _does(said: dict[str, Any]) -> str:
    """A rule's policy in a few words."""
    from towpath.policy import Rule, described

    return described(Rule.from_json(said).policy)


def _rows(version: Version) -> list[list[object]]:
    return [
        [
            f"{version.flow}/{version.origin}/{version.version}/{number}",
            _does(said),
            said.get("step"),
            said.get("code"),
            said.get("exception"),
            said.get("where"),
            version.who,
        ]
        for number, said in enumerate(version.stored["policies"])
    ]


def _item(version: Version) -> dict[str, Any]:
    return {
        "flow": version.flow,
        "origin": version.origin,
        "version": version.version,
        "rules": version.stored["policies"],
        "error_topic": version.error_topic,
        "who": version.who,
        "why": version.why,
        "made_at": version.made_at,
    }


def _trial(found: PolicyTrial) -> dict[str, Any]:
    rules = [
        {
            "name": each.rule.id,
            "rule": each.rule.rule.to_json(),
            "cases": each.cases,
            "decisions": each.decisions,
            "unreadable": each.unreadable,
        }
        for each in found.caught
    ]
    return {"cases": found.cases, "is_all": found.is_all, "rules": rules, "uncaught": found.uncaught}


def _caught(item: dict[str, Any]) -> list[object]:
    decided = ", ".join(f"{count} {name}" for name, count in item["decisions"].items())
    return [item["name"], _does(item["rule"]), item["cases"], decided, item["unreadable"] or None]
