"""The last words of the demo: what became of each kind of event, and what to try next."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from towpath.cli.demo_directory import own_name
from towpath.cli.output import Column, console, print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from towpath.cli.demo_servers import DemoServers
    from towpath.cli.given import Given
    from towpath.demo.shop_show import KindAccount, ShopShow
    from towpath.flow.audit.verdict import Verdict

MOST_PROBLEMS = 5
WIDE = 100


def print_accounts(accounts: Sequence[KindAccount]) -> None:
    """What happened to each kind of event. Where the meanings of the codes have no room, they stand below."""
    from towpath.flow.codes import MEANINGS, ErrorCode

    columns = [
        Column("events of the shop"),
        Column("sent", right=True, whole=True),
        Column("loaded", right=True, whole=True),
        Column("filtered", right=True, whole=True),
        Column("failed", right=True, whole=True),
        Column("code", right=True, whole=True),
        Column("what it means", from_width=WIDE),
    ]
    rows = []
    for account in accounts:
        codes = sorted(account.failed)
        numbers = (f"{number:,}" if number else "-" for number in _numbers(account))
        meanings = "; ".join(MEANINGS[ErrorCode(code)] for code in codes)
        rows.append([account.kind, *numbers, ", ".join(map(str, codes)), meanings])
    totals = [sum(column) for column in zip(*(_numbers(account) for account in accounts), strict=True)]
    rows.append(["all", *(f"{total:,}" for total in totals), "", ""])
    typer.echo()
    print_table(columns, rows)
    if console().width < WIDE:
        typer.echo()
        for code in sorted({code for account in accounts for code in account.failed}):
            typer.echo(f"code {code:>2}: {MEANINGS[ErrorCode(code)]}")


def _numbers(account: KindAccount) -> tuple[int, int, int, int]:
    return account.events, account.loaded, account.filtered, sum(account.failed.values())


def is_as_promised(accounts: Sequence[KindAccount], verdict: Verdict) -> bool:
    return verdict.is_balanced and all(account.is_as_expected for account in accounts)


def print_verdict(accounts: Sequence[KindAccount], verdict: Verdict) -> None:
    """Whether every event is where it belongs, and what the audit has found in the sinks."""
    sent = sum(account.events for account in accounts)
    promised = f"every one of {sent:,} events is in exactly one place: in the sinks, filtered, or in the error topic"
    is_good = is_as_promised(accounts, verdict)
    text, style = (f"✓ {promised}", "bold green") if is_good else (f"✗ NOT {promised}", "bold red")
    typer.echo()
    console().print(text, style=style)
    loaded = sum(account.loaded for account in accounts)
    for output in sorted(verdict.outputs, key=lambda each: each.delivered):
        line = f"  {output.output}: {output.delivered:,} delivered, {output.found or 0:,} found"
        more = output.delivered - loaded
        typer.echo(line + (f", with {more:,} that the other sink refused" if more > 0 else ""))
    for problem in verdict.problems[:MOST_PROBLEMS]:
        typer.echo(f"  {problem.kind} at {problem.where}: expected {problem.expected}, found {problem.found}")


def print_next_steps(directory: Path, show: ShopShow, servers: DemoServers, given: Given) -> None:
    """Commands to look into it, and to take it away again."""
    name = show.flow.name
    program = " ".join(shlex.quote(word) for word in _program(directory, servers, given))
    typer.echo("\nLook into it:")
    for words in (f"flow errors {name}", f"flow batches {name}", f"audit {name}", f"topic read {name}.errors -n 3"):
        typer.echo(f"  {program} {words}")
    if servers.index_url is not None:
        typer.echo(f"  curl -s '{servers.index_url}/{name}-*/_search?q=product:tea&size=2&pretty'")
    typer.echo(f"  ls {shlex.quote(str(directory / 'files'))}")
    if servers.are_there:
        typer.echo("\nTake it away:")
    if servers.log is not None:
        typer.echo(f"  for topic in {' '.join(show.topics)}; do")
        typer.echo(f"    {program} topic delete $topic --why 'the demo is over' --yes")
        typer.echo("  done")
    if servers.index_url is not None:
        typer.echo(f"  curl -X DELETE '{servers.index_url}/{name}-order,{name}-view'")
    typer.echo(f"  rm -r {shlex.quote(str(directory))}")


def _program(directory: Path, servers: DemoServers, given: Given) -> list[str]:
    """How commands about this demo begin. Where its Kafka is in no settings yet, they get a file of their own."""
    database = f"sqlite:///{directory}/towpath.db"
    if servers.log is None or not servers.is_log_of_stack:
        config = [] if given.config is None or servers.log is None else ["--config", str(given.config)]
        return [own_name(), *config, "--database", database]
    path = directory / "towpath.toml"
    # A JSON string is a TOML string too.
    lines = ["[database]", f"url = {json.dumps(database)}", "[log]", f"url = {json.dumps(servers.log.url)}", ""]
    path.write_text("\n".join(lines), encoding="utf-8")
    return [own_name(), "--config", str(path)]
