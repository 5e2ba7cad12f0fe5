"""`towpath peer`: one of the processes that keep the others running."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from towpath.cli.failures import UsageError, say
from towpath.cli.given import Given

app = typer.Typer(help="The processes that keep the others running.", no_args_is_help=True)

REPORT_S = 1.0


@app.callback()
def group() -> None:
    """The processes that keep the others running."""


@app.command()
def run(
    ctx: typer.Context,
    number: Annotated[int, typer.Option(min=1, metavar="N", help="Which peer this is: 1 to supervision.peers.")],
) -> None:
    """Take part in the election, and keep duties running when elected. `towpath up` starts peers by itself."""
    from towpath import logs, settings
    from towpath.cli.flow_stop import EndWish, Stopping
    from towpath.clock import SystemClock
    from towpath.events import Events
    from towpath.runtime import Runtime
    from towpath.supervision.host import peer_name
    from towpath.supervision.ping_socket import open_ping_socket, told_address

    given = ctx.ensure_object(Given)
    flags: dict[str, Any] = given.flags() | {"process": {"name": peer_name(number)}}
    loaded = settings.load(flags, given.config)
    logs.configure(loaded.logging)
    if number > loaded.supervision.peers:
        raise UsageError(f"--number {number}: supervision.peers is {loaded.supervision.peers}")
    port = loaded.supervision.port and loaded.supervision.port + number
    heard = Events()
    heard.subscribe(logs.log_event)
    udp = open_ping_socket(loaded, peer_name(number), heard, SystemClock(), port)
    with Runtime(loaded, kind="peer", pinged_at=told_address(loaded, udp)) as runtime:
        supervisor, wanted = runtime.supervisor(number, udp), EndWish()
        with Stopping(lambda: None, loaded.process.grace_s) as stopping:
            stopping.of(wanted)
            supervisor.start()
            say(f"peer {number} of {loaded.supervision.peers} runs as process {runtime.process().id}; Ctrl-C ends it")
            runtime.process().ready(supervisor.status)
            while not wanted.wait(REPORT_S):
                runtime.process().report(supervisor.status)
            supervisor.stop()
    udp.close()
