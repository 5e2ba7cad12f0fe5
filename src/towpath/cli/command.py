"""The root command: global options, the groups under it, and how every run ends."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.main import get_command
from typer.models import CommandInfo

from towpath.cli import context, demo, servers, stack
from towpath.cli.access import blocks, keys, users
from towpath.cli.actors import commands as actor_commands
from towpath.cli.actors import schedules
from towpath.cli.admin import maintenance, notices, project
from towpath.cli.catalog import complaints, data_sets
from towpath.cli.context import CliContext
from towpath.cli.desk import cases as desk_cases
from towpath.cli.desk import changes as desk_changes
from towpath.cli.desk import corrections, groups, jobs, lanes, policies, rehearsals
from towpath.cli.flows import audit, run
from towpath.cli.flows import changes as flow_changes
from towpath.cli.flows import commands as flow_commands
from towpath.cli.gateway import commands as gateway_commands
from towpath.cli.queue import commands as queue_commands
from towpath.cli.queue import events
from towpath.cli.remote.command import let_run_remotely
from towpath.cli.supervision import processes, status, up
from towpath.cli.topics import commands as topic_commands
from towpath.cli.topics import records as topic_records

REMOTE_VARIABLE = "TOWPATH_REMOTE"

app = typer.Typer(
    name="towpath",
    help="Fault-tolerant data flows: every record ends in exactly one place.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# Commands as `--help` lists them: those that look first, then those that change something.
ORDER = {
    topic_commands.app: [
        *("list", "show", "offsets", "create", "grow", "delete", "forget-group", "copy"),
        *("send", "read", "tail"),
    ],
    flow_commands.app: [
        *("list", "show", "state", "batches", "pause", "resume", "stop", "reset"),
        *("check", "errors", "graph"),
    ],
    actor_commands.app: ["list", "show", "start", "abort", "wake", "enable", "disable", "graph", "template", "run"],
    desk_cases.app: [
        *("list", "show", "groups"),
        *("replay", "resend", "abandon", "open", "assign", "recall", "note"),
        *("edit", "agree", "refuse", "export", "rehearse", "rehearse-asked", "run"),
    ],
}


def _name_of(command: CommandInfo) -> str:
    return command.name or getattr(command.callback, "__name__", "").replace("_", "-")


app.add_typer(queue_commands.app, name="queue")
topic_commands.app.registered_commands += topic_records.app.registered_commands
app.add_typer(topic_commands.app, name="topic")
flow_commands.app.registered_commands += flow_changes.app.registered_commands
app.add_typer(flow_commands.app, name="flow")
actor_commands.app.add_typer(schedules.app, name="schedule")
app.add_typer(actor_commands.app, name="actor")
app.add_typer(data_sets.app, name="data-set")
app.add_typer(blocks.app, name="block")
app.add_typer(complaints.app, name="complaint")
app.add_typer(maintenance.app, name="maintenance")
for part in (desk_changes, rehearsals):
    desk_cases.app.registered_commands += part.app.registered_commands
desk_cases.app.add_typer(groups.app, name="group")
desk_cases.app.add_typer(jobs.app, name="job")
desk_cases.app.add_typer(corrections.app, name="correct")
desk_cases.app.add_typer(policies.app, name="policy")
app.add_typer(desk_cases.app, name="desk")
app.add_typer(lanes.app, name="lane")
app.add_typer(events.app, name="event")
app.add_typer(processes.app, name="process")
app.add_typer(processes.peer_app, name="peer")
app.add_typer(gateway_commands.app, name="upload")
app.add_typer(users.app, name="user")
app.add_typer(keys.app, name="key")
app.add_typer(servers.app, name="api")
app.add_typer(servers.gateway_app, name="gateway")
app.add_typer(notices.app, name="notify")
app.add_typer(up.deploy_app, name="deploy")
app.add_typer(project.app, name="schema")
app.add_typer(stack.app, name="stack")
app.command("init")(project.init)
app.command("run")(run.run)
app.command("up")(up.up)
app.command("down")(up.down)
app.command("status")(status.status)
app.command("console")(servers.console)
app.command("audit")(audit.audit)
app.command("trace")(audit.trace)
app.command("doctor")(project.doctor)
app.command("send")(gateway_commands.send)
app.command("receive")(gateway_commands.receive)
app.command("demo")(demo.demo)
for group, names in ORDER.items():
    group.registered_commands.sort(key=lambda command: names.index(_name_of(command)))
let_run_remotely(app)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"towpath {version('towpath')}")
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Settings file; otherwise ./towpath.toml if there is one.")
    ] = None,
    database: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Database for this command; overrules settings file and variables."),
    ] = None,
    remote: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar=REMOTE_VARIABLE,
            help="Let the server of this address do it, in place of a database; the variable TOWPATH_KEY has the key.",
        ),
    ] = None,
    key_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --remote: a file with the API key, if no variable has it.")
    ] = None,
    ca_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --remote: certificates (PEM) by which the server is recognised."),
    ] = None,
    plain_http: Annotated[
        bool, typer.Option("--plain-http", help="With --remote: send the key to another machine without encryption.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the trace of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    given = ctx.ensure_object(CliContext)
    given.config, given.database, given.debug = config, database, debug
    given.remote, given.key_file, given.ca_file, given.plain_http = remote or None, key_file, ca_file, plain_http
    if given.remote is not None and database is not None:
        raise context.UsageError("--remote and --database: only one of them")


@cache
def _root_command() -> Any:
    """All commands; made once in a process, since that takes a seventh of a second."""
    return get_command(app)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 failed, 2 wrong usage, 3 not configured or not reachable."""
    given = CliContext()
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        context.check_words(words)
        code = _root_command().main(words, prog_name="towpath", standalone_mode=False, obj=given)
        sys.stdout.flush()
    except Exception as error:
        return context.tell(error, given.debug)
    except KeyboardInterrupt:
        return context.INTERRUPTED
    except SystemExit:  # Typer's answer to a reader that went away; all else it returns or raises
        return context.leave_quietly()
    return code if isinstance(code, int) else context.DONE
