"""`towpath demo`: see it work."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import typer

from towpath.cli.demo_directory import demo_directory
from towpath.cli.demo_end import is_as_promised, print_accounts, print_next_steps, print_verdict
from towpath.cli.demo_queue import REQUESTS, play_queue
from towpath.cli.demo_serve import serve_demo
from towpath.cli.demo_servers import DemoServers, ElasticsearchUrl, OnElasticsearch, OnKafka, find_servers
from towpath.cli.failures import FAILED, UsageError, say
from towpath.cli.given import Given
from towpath.cli.options import AsJson
from towpath.cli.output import print_json

if TYPE_CHECKING:
    from towpath.runtime import Runtime

FEWEST = 4_000
MOST = 1_000_000
EVENTS = 20_000
RUN_NAME_LENGTH = 6


def demo(
    ctx: typer.Context,
    queue: Annotated[bool, typer.Option("--queue", help="The queue instead: two workers, one of them killed.")] = False,
    kafka: OnKafka = False,
    elasticsearch: OnElasticsearch = False,
    elasticsearch_url: ElasticsearchUrl = None,
    events: Annotated[int, typer.Option(min=FEWEST, max=MOST, metavar="N", help="How many events.")] = EVENTS,
    requests: REQUESTS = 1000,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where to put everything: a directory that is empty or not there yet."),
    ] = None,
    serve: Annotated[
        bool,
        typer.Option("--serve", help="Run it all with live traffic, and the console to look at it, until Ctrl-C."),
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="With --serve: the console's port; 0: a free one.")] = 0,
    as_json: AsJson = False,
) -> None:
    """20,000 events of a shop with every kind of fault mixed in; at the end each is in exactly one place.

    Everything is embedded, unless --kafka or --elasticsearch put it on servers, under names that are new each time.
    """
    given = ctx.ensure_object(Given)
    if given.database is not None:
        raise UsageError("the demo makes a database of its own: leave --database away")
    has_servers = kafka or elasticsearch or elasticsearch_url is not None
    if serve:
        if queue or has_servers or as_json:
            raise UsageError("--serve is everything, embedded: leave --queue, --kafka, --elasticsearch and --json away")
        serve_demo(given, keep, port)
        return
    if queue and has_servers:
        raise UsageError("--queue needs no server: leave --kafka and --elasticsearch away")
    if queue:
        play_queue(requests, keep, as_json)
        return
    servers = DemoServers()
    if has_servers:
        servers = find_servers(given.settings(), kafka, elasticsearch, elasticsearch_url)
    _play_shop(given, servers, events, keep, as_json)


def _play_shop(given: Given, servers: DemoServers, events: int, keep: Path | None, as_json: bool) -> None:
    from towpath.cli.flow_tally import Tally
    from towpath.cli.run import run_flow
    from towpath.demo.shop_show import ShopShow

    run = uuid4().hex[:RUN_NAME_LENGTH] if servers.are_there else ""
    with demo_directory(keep) as directory, _runtime(given, servers, directory) as runtime:
        show = ShopShow(runtime, directory, run, servers.index_url)
        _check_log(runtime, servers)
        show.send(events)
        where = "" if servers.log is None else f" at {servers.log.url}"
        say(f"{events:,} events are in topic {show.topic}{where}, good and bad ones mixed")
        run_flow(runtime, show.flow, True, Tally(show.flow.name))
        accounts, verdict = show.accounts(), show.audit()
    if as_json:
        kinds = [account.to_json() for account in accounts]
        print_json({"kinds": kinds, "audit": verdict.to_json(), "directory": str(directory)})
    else:
        print_accounts(accounts)
        print_verdict(accounts, verdict)
        print_next_steps(directory, show, servers, given)
    if not is_as_promised(accounts, verdict):
        raise typer.Exit(FAILED)


def _runtime(given: Given, servers: DemoServers, directory: Path) -> Runtime:
    from towpath import logs
    from towpath.demo.shop_show import BATCH
    from towpath.runtime import Runtime
    from towpath.settings import FlowSettings, LogSettings, Settings

    settings = Settings(
        database={"url": f"sqlite:///{directory}/towpath.db"},
        log=servers.log or LogSettings(url="embedded"),  # whatever the variables of this shell say
        flow=FlowSettings(directory=str(directory / "flows"), max_batch_records=BATCH),
    )
    level = "debug" if given.debug else "error"
    logs.configure(settings.logging.model_copy(update={"level": level}))
    return Runtime(settings)


def _check_log(runtime: Runtime, servers: DemoServers) -> None:
    """A broker that is away is told at once, with the patience of a person."""
    from towpath.cli.topic_logs import open_one

    if servers.log is not None:
        with open_one(runtime, None, look=True) as log:
            log.topics()
