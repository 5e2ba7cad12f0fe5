"""`towpath demo`: see it work."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.demo_directory import demo_directory, own_name
from towpath.cli.demo_queue import REQUESTS, play_queue
from towpath.cli.failures import FAILED, UsageError, say
from towpath.cli.given import Given
from towpath.cli.options import AsJson
from towpath.cli.output import Column, console, print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from towpath.demo.shop_show import KindAccount
    from towpath.flow.audit.verdict import Verdict
    from towpath.runtime import Runtime

FEWEST = 4_000
MOST = 1_000_000
EVENTS = 20_000


def demo(
    ctx: typer.Context,
    queue: Annotated[bool, typer.Option("--queue", help="The queue instead: two workers, one of them killed.")] = False,
    events: Annotated[int, typer.Option(min=FEWEST, max=MOST, metavar="N", help="How many events.")] = EVENTS,
    requests: REQUESTS = 1000,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where to put everything: a directory that is empty or not there yet."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """20,000 events of a shop with every kind of fault mixed in; at the end each is in exactly one place."""
    if ctx.ensure_object(Given).database is not None:
        raise UsageError("the demo makes a database of its own: leave --database away")
    if queue:
        play_queue(requests, keep, as_json)
    else:
        _play_shop(ctx.ensure_object(Given), events, keep, as_json)


def _play_shop(given: Given, events: int, keep: Path | None, as_json: bool) -> None:
    from towpath.cli.flow_tally import Tally
    from towpath.cli.run import run_flow
    from towpath.demo.shop_show import ShopShow

    with demo_directory(keep) as directory, _runtime(given, directory) as runtime:
        show = ShopShow(runtime, directory)
        show.send(events, lambda sent: None)
        say(f"{events:,} events are in topic shop-events, good and bad ones mixed")
        run_flow(runtime, show.flow, True, Tally(show.flow.name))
        accounts, verdict = show.accounts(), show.audit()
    if as_json:
        kinds = [account.to_json() for account in accounts]
        print_json({"kinds": kinds, "audit": verdict.to_json(), "directory": str(directory)})
    else:
        print_accounts(accounts)
        _print_verdict(accounts, verdict)
        _print_next_steps(directory)
    if not _is_as_promised(accounts, verdict):
        raise typer.Exit(FAILED)


def _runtime(given: Given, directory: Path) -> Runtime:
    from towpath import logs
    from towpath.demo.shop_show import BATCH
    from towpath.runtime import Runtime
    from towpath.settings import FlowSettings, Settings

    settings = Settings(
        database={"url": f"sqlite:///{directory}/towpath.db"},
        flow=FlowSettings(directory=str(directory / "flows"), max_batch_records=BATCH),
    )
    level = "debug" if given.debug else "error"
    logs.configure(settings.logging.model_copy(update={"level": level}))
    return Runtime(settings)


def print_accounts(accounts: Sequence[KindAccount]) -> None:
    """The last table of the demo: what happened to each kind of event."""
    from towpath.cli.flow_words import MEANINGS
    from towpath.flow.codes import ErrorCode

    columns = [
        Column("events of the shop"),
        Column("sent", right=True, whole=True),
        Column("loaded", right=True, whole=True),
        Column("filtered", right=True, whole=True),
        Column("failed", right=True, whole=True),
        Column("why: code and its meaning"),
    ]
    rows = []
    for account in accounts:
        why = "; ".join(f"{code}: {MEANINGS[ErrorCode(code)]}" for code in sorted(account.failed))
        numbers = (account.events, account.loaded, account.filtered, sum(account.failed.values()))
        rows.append([account.kind, *(f"{number:,}" if number else "-" for number in numbers), why])
    totals = [sum(column) for column in zip(*(_numbers(account) for account in accounts), strict=True)]
    rows.append(["all", *(f"{total:,}" for total in totals), ""])
    typer.echo()
    print_table(columns, rows)


def _numbers(account: KindAccount) -> tuple[int, int, int, int]:
    return account.events, account.loaded, account.filtered, sum(account.failed.values())


def _is_as_promised(accounts: Sequence[KindAccount], verdict: Verdict) -> bool:
    return verdict.is_balanced and all(account.is_as_expected for account in accounts)


def _print_verdict(accounts: Sequence[KindAccount], verdict: Verdict) -> None:
    sent = sum(account.events for account in accounts)
    promised = f"every one of {sent:,} events is in exactly one place: in the sinks, filtered, or in the error topic"
    is_good = _is_as_promised(accounts, verdict)
    text, style = (f"✓ {promised}", "bold green") if is_good else (f"✗ NOT {promised}", "bold red")
    typer.echo()
    console().print(text, style=style)


def _print_next_steps(directory: Path) -> None:
    database = shlex.quote(f"sqlite:///{directory}/towpath.db")
    typer.echo("\nLook into it:")
    for words in ("flow errors shop", "flow batches shop", "audit shop", "topic read shop.errors -n 3"):
        typer.echo(f"  {own_name()} --database {database} {words}")
    typer.echo(f"  ls {shlex.quote(str(directory / 'files'))}")
    typer.echo(f"  rm -r {shlex.quote(str(directory))}")
