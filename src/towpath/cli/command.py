"""The root command: global options, the groups under it, and how every run ends."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.main import get_command

from towpath.cli import (
    actor,
    actor_changes,
    actor_graph,
    actor_run,
    actor_schedule,
    api,
    audit,
    block,
    complaint,
    console,
    data_set,
    demo,
    deploy,
    desk,
    desk_changes,
    desk_correct,
    desk_correct_changes,
    desk_edit,
    desk_export,
    desk_groups,
    desk_jobs,
    desk_policy,
    desk_rehearse,
    desk_run,
    doctor,
    event,
    failures,
    flow,
    flow_batches,
    flow_changes,
    flow_check,
    flow_errors,
    flow_graph,
    gateway,
    init,
    key,
    lane,
    maintenance,
    notify,
    peer,
    process,
    queue,
    queue_changes,
    receive,
    run,
    schema,
    send,
    stack,
    status,
    topic,
    topic_changes,
    topic_read,
    topic_send,
    trace,
    up,
    upload,
    user,
)
from towpath.cli.given import Given
from towpath.cli.remote.command import let_run_remotely

REMOTE_VARIABLE = "TOWPATH_REMOTE"

app = typer.Typer(
    name="towpath",
    help="Fault-tolerant data flows: every record ends in exactly one place.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
queue.app.registered_commands += queue_changes.app.registered_commands
app.add_typer(queue.app, name="queue")
for part in (topic_changes, topic_send, topic_read):
    topic.app.registered_commands += part.app.registered_commands
app.add_typer(topic.app, name="topic")
for part in (flow_batches, flow_changes, flow_check, flow_errors, flow_graph):
    flow.app.registered_commands += part.app.registered_commands
app.add_typer(flow.app, name="flow")
for part in (actor_changes, actor_graph, actor_run):
    actor.app.registered_commands += part.app.registered_commands
actor.app.add_typer(actor_schedule.app, name="schedule")
app.add_typer(actor.app, name="actor")
app.add_typer(data_set.app, name="data-set")
app.add_typer(block.app, name="block")
app.add_typer(complaint.app, name="complaint")
app.add_typer(maintenance.app, name="maintenance")
for part in (desk_changes, desk_edit, desk_export, desk_rehearse, desk_run):
    desk.app.registered_commands += part.app.registered_commands
desk.app.add_typer(desk_groups.app, name="group")
desk.app.add_typer(desk_jobs.app, name="job")
desk_correct.app.registered_commands += desk_correct_changes.app.registered_commands
desk.app.add_typer(desk_correct.app, name="correct")
desk.app.add_typer(desk_policy.app, name="policy")
app.add_typer(desk.app, name="desk")
app.add_typer(lane.app, name="lane")
app.add_typer(event.app, name="event")
app.add_typer(process.app, name="process")
app.add_typer(peer.app, name="peer")
app.add_typer(upload.app, name="upload")
app.add_typer(user.app, name="user")
app.add_typer(key.app, name="key")
app.add_typer(api.app, name="api")
app.add_typer(gateway.app, name="gateway")
app.add_typer(notify.app, name="notify")
app.add_typer(deploy.app, name="deploy")
app.add_typer(schema.app, name="schema")
app.add_typer(stack.app, name="stack")
app.command("init")(init.init)
app.command("run")(run.run)
app.command("up")(up.up)
app.command("down")(up.down)
app.command("status")(status.status)
app.command("console")(console.console)
app.command("audit")(audit.audit)
app.command("trace")(trace.trace)
app.command("doctor")(doctor.doctor)
app.command("send")(send.send)
app.command("receive")(receive.receive)
app.command("demo")(demo.demo)
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
    given = ctx.ensure_object(Given)
    given.config, given.database, given.debug = config, database, debug
    given.remote, given.key_file, given.ca_file, given.plain_http = remote or None, key_file, ca_file, plain_http
    if given.remote is not None and database is not None:
        raise failures.UsageError("--remote and --database: only one of them")


@cache
def _put_together() -> Any:
    """All commands; once in a process, for it takes a seventh of a second."""
    return get_command(app)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 failed, 2 wrong usage, 3 not configured or not reachable."""
    given = Given()
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        failures.check_words(words)
        code = _put_together().main(words, prog_name="towpath", standalone_mode=False, obj=given)
        sys.stdout.flush()
    except Exception as error:
        return failures.tell(error, given.debug)
    except KeyboardInterrupt:
        return failures.INTERRUPTED
    except SystemExit:  # Typer's answer to a reader that went away; all else it returns or raises
        return failures.leave_quietly()
    return code if isinstance(code, int) else failures.DONE
