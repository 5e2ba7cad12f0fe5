"""`towpath demo`: see it work.

Without options a shop's flow runs over events with every kind of fault; `--queue` plays the queue with a worker that
is killed; `--serve` runs all of it under supervision, with traffic, until Ctrl-C.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import typer

from towpath.cli.context import FAILED, CliContext, UsageError, say, working_runtime
from towpath.cli.options import AsJson
from towpath.cli.output import Column, can_redraw, console, print_fields, print_json, print_table
from towpath.cli.progress import transient_bar
from towpath.cli.supervision.up import UpOptions, UpProgress, place_of, stay_up
from towpath.cli.topics.commands import open_one
from towpath.errors import ServerFailed
from towpath.stack.model import ServerName, ServerState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.progress import Progress

    from towpath.demo.queue_demo import DemoLedger
    from towpath.demo.shop_demo import KindAccount, ShopShow
    from towpath.flow.audit.balance import AuditVerdict
    from towpath.runtime import Runtime
    from towpath.settings import LogSettings, Settings


FEWEST = 4_000
MOST = 1_000_000
EVENTS = 20_000
FEWEST_REQUESTS = 100
MOST_REQUESTS = 100_000
RUN_NAME_LENGTH = 6
START_S = 300.0
PLAIN_LINE_EVERY_S = 1.0
MOST_PROBLEMS = 5
WIDE = 100
# Whatever the variables of this shell say: the demo has a database and a log of its own.
_OWN = ("TOWPATH_DATABASE__", "TOWPATH_LOG__", "TOWPATH_API__", "TOWPATH_UP")

OnKafka = Annotated[
    bool, typer.Option("--kafka", help="Topics in Kafka: the one of the settings, else that of `towpath stack`.")
]
OnElasticsearch = Annotated[
    bool,
    typer.Option("--elasticsearch", help="Indices of Elasticsearch in place of a table: that of `towpath stack`."),
]
ElasticsearchUrl = Annotated[
    str | None, typer.Option("--elasticsearch-url", metavar="URL", help="The same, on another Elasticsearch.")
]
Requests = Annotated[
    int,
    typer.Option(min=FEWEST_REQUESTS, max=MOST_REQUESTS, metavar="N", help="With --queue: how many requests to send."),
]


def demo(
    ctx: typer.Context,
    queue: Annotated[bool, typer.Option("--queue", help="The queue instead: two workers, one of them killed.")] = False,
    kafka: OnKafka = False,
    elasticsearch: OnElasticsearch = False,
    elasticsearch_url: ElasticsearchUrl = None,
    events: Annotated[int, typer.Option(min=FEWEST, max=MOST, metavar="N", help="How many events.")] = EVENTS,
    requests: Requests = 1000,
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
    given = ctx.ensure_object(CliContext)
    if given.database is not None:
        raise UsageError("the demo makes a database of its own: leave --database away")
    has_servers = kafka or elasticsearch or elasticsearch_url is not None
    if serve:
        if queue or has_servers or as_json:
            raise UsageError("--serve is everything, embedded: leave --queue, --kafka, --elasticsearch and --json away")
        _serve_demo(given, keep, port)
        return
    if queue and has_servers:
        raise UsageError("--queue needs no server: leave --kafka and --elasticsearch away")
    if queue:
        _play_queue(requests, keep, as_json)
        return
    servers = DemoServers()
    if has_servers:
        servers = find_servers(given.settings(), kafka, elasticsearch, elasticsearch_url)
    _play_shop(given, servers, events, keep, as_json)


@dataclass(frozen=True, slots=True)
class DemoServers:
    """The servers that the demo uses; it does without those that are None."""

    log: LogSettings | None = None
    is_log_of_stack: bool = False
    index_url: str | None = None

    @property
    def are_there(self) -> bool:
        return self.log is not None or self.index_url is not None


def find_servers(settings: Settings, kafka: bool, elasticsearch: bool, url: str | None) -> DemoServers:
    """The servers that the options ask for; raises `ServerFailed` with the command that starts the missing ones."""
    from towpath.log.open import KAFKA_PREFIX
    from towpath.settings import LogSettings

    has_own_log = settings.log.url.startswith(KAFKA_PREFIX)
    wanted = []
    if kafka and not has_own_log:
        wanted.append(ServerName.KAFKA)
    if elasticsearch and url is None:
        wanted.append(ServerName.ELASTICSEARCH)
    running = _running(settings, wanted)
    log = None
    if kafka:
        log = settings.log if has_own_log else LogSettings(url=running[ServerName.KAFKA])
    return DemoServers(log, kafka and not has_own_log, url or running.get(ServerName.ELASTICSEARCH))


def _play_shop(given: CliContext, servers: DemoServers, events: int, keep: Path | None, as_json: bool) -> None:
    from towpath.cli.flows.run import run_flow
    from towpath.cli.flows.screen import RunTally
    from towpath.demo.shop_demo import ShopShow

    run = uuid4().hex[:RUN_NAME_LENGTH] if servers.are_there else ""
    with _demo_directory(keep) as directory, _demo_runtime(given, servers, directory) as runtime:
        show = ShopShow(runtime, directory, run, servers.index_url)
        if servers.log is not None:
            with open_one(runtime, None, look=True) as log:
                log.topics()  # a broker that is away is told at once: a person waits
        show.send(events)
        where = "" if servers.log is None else f" at {servers.log.url}"
        say(f"{events:,} events are in topic {show.topic}{where}, good and bad ones mixed")
        run_flow(runtime, show.flow, True, RunTally(show.flow.name))
        accounts, verdict = show.accounts(), show.audit()
    if as_json:
        kinds = [account.to_json() for account in accounts]
        print_json({"kinds": kinds, "audit": verdict.to_json(), "directory": str(directory)})
    else:
        _print_accounts(accounts)
        _print_verdict(accounts, verdict)
        _print_next_steps(directory, show, servers, given)
    if not _is_as_promised(accounts, verdict):
        raise typer.Exit(FAILED)


def _demo_runtime(given: CliContext, servers: DemoServers, directory: Path) -> Runtime:
    from towpath.core import logs
    from towpath.demo.shop_demo import BATCH
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


def _print_accounts(accounts: Sequence[KindAccount]) -> None:
    """What happened to each kind of event. On a narrow terminal the meanings of the codes stand below the table."""
    from towpath.flow.failures import MEANINGS, ErrorCode

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


def _is_as_promised(accounts: Sequence[KindAccount], verdict: AuditVerdict) -> bool:
    return verdict.is_balanced and all(account.is_as_expected for account in accounts)


def _print_verdict(accounts: Sequence[KindAccount], verdict: AuditVerdict) -> None:
    """Whether each event is in exactly one place, and what the audit found in the sinks."""
    sent = sum(account.events for account in accounts)
    promised = f"every one of {sent:,} events is in exactly one place: in the sinks, filtered, or in the error topic"
    is_good = _is_as_promised(accounts, verdict)
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


def _print_next_steps(directory: Path, show: ShopShow, servers: DemoServers, given: CliContext) -> None:
    """Commands with which to explore the demo, and to remove it."""
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


def _program(directory: Path, servers: DemoServers, given: CliContext) -> list[str]:
    """The beginning of commands about this demo. Writes a settings file when its Kafka is in no settings yet."""
    database = f"sqlite:///{directory}/towpath.db"
    if servers.log is None or not servers.is_log_of_stack:
        config = [] if given.config is None or servers.log is None else ["--config", str(given.config)]
        return [_own_name(), *config, "--database", database]
    path = directory / "towpath.toml"
    # A JSON string is a TOML string too.
    lines = ["[database]", f"url = {json.dumps(database)}", "[log]", f"url = {json.dumps(servers.log.url)}", ""]
    path.write_text("\n".join(lines), encoding="utf-8")
    return [_own_name(), "--config", str(path)]


def _play_queue(requests: int, keep: Path | None, as_json: bool) -> None:
    """Two workers answer requests, one is killed with SIGKILL at its work, and none is lost or answered twice."""
    from towpath.demo.queue_demo import database_url, play

    with _demo_directory(keep) as directory, _QueueDisplay() as display:
        ledger = play(directory, requests, display)
    if as_json:
        print_json({**asdict(ledger), "is_as_promised": ledger.is_as_promised, "directory": str(directory)})
    else:
        _print_ledger(ledger)
        _print_queue_steps(database_url(directory), directory)
    if not ledger.is_as_promised:
        raise typer.Exit(FAILED)


class _QueueDisplay:
    """A progress bar on a terminal, a line now and then elsewhere; on standard error, beside the table."""

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._last_line_at = 0.0

    def __enter__(self) -> _QueueDisplay:
        if can_redraw(sys.stderr):
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

            columns = (TextColumn("answered"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            self._progress = transient_bar(*columns)
            self._task = self._progress.add_task("answered", total=None)
            self._progress.start()
        return self

    def __exit__(self, *ignored: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def say(self, text: str) -> None:
        if self._progress is not None:
            self._progress.console.print(text)
        else:
            say(text)

    def count(self, answered: int, requests: int) -> None:
        if self._progress is not None:
            self._progress.update(self._task, completed=answered, total=requests)
        elif time.monotonic() - self._last_line_at >= PLAIN_LINE_EVERY_S:
            self._last_line_at = time.monotonic()
            say(f"{answered:,} of {requests:,} answered")


def _print_ledger(ledger: DemoLedger) -> None:
    typer.echo()
    columns = [
        Column("worker", whole=True),
        Column("answered", right=True),
        Column("worked on", right=True),
        Column("end"),
    ]
    print_table(
        columns,
        [
            [
                worker.name,
                f"{worker.answered:,}",
                f"{worker.worked_on:,}",
                "stopped in order"
                if worker.noticed_after_s is None
                else f"killed; noticed {worker.noticed_after_s:.1f} s after its last heartbeat",
            ]
            for worker in ledger.workers
        ],
    )
    typer.echo()
    twice = f"{ledger.worked_on_twice:,}: done by the dead worker, not finished in the queue"
    print_fields(
        [
            ("requests", ", ".join(f"{count:,} {state}" for state, count in ledger.states.items() if count)),
            ("answers per request", f"least {ledger.answers_min}, most {ledger.answers_max}"),
            ("right answers", f"{ledger.right_answers:,}"),
            ("claims freed", f"{ledger.claims_freed:,}"),
            ("worked on twice", twice),
        ]
    )
    promised = f"all {ledger.requests:,} requests were answered once"
    verdict, style = (f"✓ {promised}", "bold green") if ledger.is_as_promised else (f"✗ NOT {promised}", "bold red")
    typer.echo()
    console().print(verdict, style=style)


def _print_queue_steps(url: str, directory: Path) -> None:
    typer.echo("\nLook into it:")
    for words in (
        "queue inboxes",
        "event list --kind process_died",
        "event list --kind claim_freed",
        "queue list --inbox numbers --limit 5",
    ):
        typer.echo(f"  {_own_name()} --database {shlex.quote(url)} {words}")
    typer.echo(f"  rm -r {shlex.quote(str(directory))}")


def _serve_demo(given: CliContext, keep: Path | None, port: int) -> None:
    """Run everything until Ctrl-C, then stop it. Without `keep` its directory is deleted."""
    from towpath.demo.served_demo import write_served
    from towpath.supervision.duties.plan import duties_wanted

    for name in [name for name in os.environ if name.startswith(_OWN)]:
        del os.environ[name]
    with _demo_directory(keep) as directory:
        served = CliContext(write_served(directory, port), debug=given.debug)
        say("starting Spark, the shop's flow, the desk, two workflows, the console and some traffic; takes a minute …")
        with working_runtime(served, "up", "up") as runtime:
            wanted = duties_wanted(runtime.settings, place_of(served))
            options = UpOptions("demo", "towpath demo --serve", START_S, UpProgress(quiet=False))
            stay_up(runtime, wanted, options, lambda _: _invite(runtime, directory))
    if keep is None:
        shutil.rmtree(directory, ignore_errors=True)
    else:
        say(f"it goes on where it was with: towpath --config {directory}/towpath.toml up")


def _invite(runtime: Runtime, directory: Path) -> None:
    """Print where to look. A password that was chosen in an earlier run still works."""
    address = f"http://127.0.0.1:{runtime.settings.api.port}"
    secret = runtime.access.sessions.first_link()
    typer.echo(f"\nthe console is at {address}")
    if secret is not None:
        typer.echo(f"choose the password of admin, once, at\n  {address}/welcome/{secret}")
    typer.echo(f"its flow is {directory}/shop.py; kill whatever process you like\n")


def _running(settings: Settings, wanted: list[ServerName]) -> dict[ServerName, str]:
    """The addresses of these servers of the stack; raises `ServerFailed` if one does not run."""
    from towpath.stack.stack import Stack

    stack = Stack(Path(settings.stack.directory), settings.spark.java_home)
    found = [stack.status(name) for name in wanted]
    if missing := [it for it in found if it.state is not ServerState.RUNNING]:
        names = " ".join(it.name for it in missing)
        states = ", ".join(f"{it.name} ({it.state})" for it in missing)
        raise ServerFailed(f"the demo needs servers that do not run here: {states}; type: towpath stack up {names}")
    return {it.name: it.url for it in found}


@contextlib.contextmanager
def _demo_directory(keep: Path | None) -> Iterator[Path]:
    """A directory that is kept when the demo ends, so that the person can explore it."""
    if keep is None:
        directory = Path(tempfile.mkdtemp(prefix="towpath-demo-"))
    else:
        try:
            keep.mkdir(parents=True, exist_ok=True)
            is_empty = not any(keep.iterdir())
        except OSError as error:
            raise UsageError(f"--keep {keep}: {error.strerror}") from error
        if not is_empty:
            raise UsageError(f"--keep {keep}: the directory is not empty")
        directory = keep.absolute()
    try:
        yield directory
    except KeyboardInterrupt:
        if keep is None:
            shutil.rmtree(directory, ignore_errors=True)
        raise
    except BaseException:
        say(f"what was written until then is in {directory}")
        raise


def _own_name() -> str:
    """How to call this program again: `make demo` runs it from a directory outside PATH."""
    program = Path(sys.argv[0])
    if shutil.which("towpath") or program.name != "towpath":
        return "towpath"
    with contextlib.suppress(ValueError):
        program = program.absolute().relative_to(Path.cwd())
    return str(program)
