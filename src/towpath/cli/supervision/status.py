"""`towpath status`: a tree of hosts, what has to run on each, and the process that does it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.context import FAILED, open_runtime
from towpath.cli.options import AsJson
from towpath.cli.output import age, console, plain, print_json, styled
from towpath.core.clock import to_datetime

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from rich.text import Text

    from towpath.runtime import Runtime
    from towpath.supervision.duties.model import Duty
    from towpath.supervision.service import Overview


WATCH_S = 0.5
NAME_WIDTH = 20
GONE = "gone"  # no state of a duty: what is seen when nobody is there to write it down
NOBODY = "nobody watches: towpath up"


def status(
    ctx: typer.Context,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it again and again, until Ctrl-C.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Exit 1 unless all that is to run is ready.")] = False,
    as_json: AsJson = False,
) -> None:
    """What has to run, on which host, and the process that does it."""
    from towpath.operations.processes import overview_item

    with open_runtime(ctx) as runtime:
        if watch:
            _watch(runtime)
        found = runtime.duties.overview()
        gone = runtime.duties.gone(found)
    if as_json:
        print_json(overview_item(found, gone))
    else:
        out = console()
        for line in status_lines(found, gone):
            out.print(line, soft_wrap=True)
    if check and not found.is_all_ready:
        raise typer.Exit(FAILED)


def status_lines(found: Overview, gone: frozenset[str] = frozenset()) -> Iterator[Text]:
    """The lines of the tree; `gone` names duties whose process is gone."""
    from rich.text import Text

    now = to_datetime(found.now_us)
    yield Text(_head(found, gone), style="bold")
    if _is_unwatched(found, gone):
        yield Text(NOBODY, style="bold red")
    by_host: dict[str, list[Duty]] = {}
    for duty in sorted(found.duties, key=lambda each: (each.host, each.spec.order, each.name)):
        by_host.setdefault(duty.host, []).append(duty)
    for host, duties in by_host.items():
        yield Text(host, style="bold")
        for number, duty in enumerate(duties, 1):
            yield _duty_line(found, duty, now, is_gone=duty.name in gone, is_last=number == len(duties))


def _watch(runtime: Runtime) -> None:
    """Redraw the tree on the terminal until Ctrl-C."""
    from rich.console import Group
    from rich.live import Live

    with Live(console=console(), auto_refresh=False) as live:
        while True:
            found = runtime.duties.overview()
            live.update(Group(*status_lines(found, runtime.duties.gone(found))), refresh=True)
            time.sleep(WATCH_S)


def _is_unwatched(found: Overview, gone: frozenset[str]) -> bool:
    """Whether no peer is left to coordinate. Between two terms there are peers, and one of them soon does."""
    has_peer = any(duty.kind == "peer" and duty.is_running and duty.name not in gone for duty in found.duties)
    return not found.has_coordinator and not has_peer and any(duty.is_wanted for duty in found.duties)


def _head(found: Overview, gone: frozenset[str]) -> str:
    if not found.duties:
        return "nothing has to run: name it in [up] of towpath.toml, then type towpath up"
    wanted = [duty for duty in found.duties if duty.is_wanted]
    ready = sum(duty.state == "ready" and duty.name not in gone for duty in wanted)
    by = f"peer {found.term.peer} coordinates, term {found.term.number}"
    if not found.has_coordinator:
        by = "no peer coordinates"
    elif not found.term.peer:
        by = f"{found.term.holder} coordinates until a peer is there"
    return f"{ready} of {len(wanted)} ready; {by}"


def _duty_line(found: Overview, duty: Duty, now: datetime, *, is_gone: bool, is_last: bool) -> Text:
    from rich.text import Text

    branch = "└─ " if is_last else "├─ "
    state = GONE if is_gone else duty.state.value
    return Text.assemble(
        branch,
        f"{plain(duty.name):<{NAME_WIDTH}} {duty.kind:<8} ",
        styled(state),
        " " * (9 - len(state)),
        _rest_of_gone(found, duty, now) if is_gone else _rest(found, duty, now),
    )


def _rest_of_gone(found: Overview, duty: Duty, now: datetime) -> str:
    process = found.processes.get(duty.process_id or "")
    seen = "" if process is None else f"pid {process.pid}, last heard of {age(process.beat_at, now)} ago, "
    return plain(f"{seen}start {duty.launch}")


def _rest(found: Overview, duty: Duty, now: datetime) -> str:
    process = found.processes.get(duty.process_id or "")
    if duty.is_running and process is not None:
        since = "" if duty.ready_at is None else f" for {age(duty.ready_at, now)}"
        return plain(f"pid {process.pid}{since}, start {duty.launch}: {process.status}")
    if duty.next_try_at is not None:
        wait = age(duty.next_try_at, now).removeprefix("+")
        return plain(f"{duty.trouble}; start {duty.launch + 1} in {wait}")
    if duty.state == "stopped":
        return plain(f"{duty.who}: {duty.why}")
    return plain(duty.trouble or (f"start {duty.launch}" if duty.launch else ""))
