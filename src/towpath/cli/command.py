"""The root command: global options, the groups under it, and how every run ends."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from typer.main import get_command

from towpath.cli import (
    audit,
    demo,
    doctor,
    event,
    failures,
    flow,
    flow_batches,
    flow_changes,
    flow_check,
    flow_errors,
    flow_graph,
    init,
    process,
    queue,
    queue_changes,
    run,
    schema,
    stack,
    topic,
    topic_changes,
    topic_read,
    topic_send,
    trace,
)
from towpath.cli.given import Given

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
app.add_typer(event.app, name="event")
app.add_typer(process.app, name="process")
app.add_typer(schema.app, name="schema")
app.add_typer(stack.app, name="stack")
app.command("init")(init.init)
app.command("run")(run.run)
app.command("audit")(audit.audit)
app.command("trace")(trace.trace)
app.command("doctor")(doctor.doctor)
app.command("demo")(demo.demo)


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
    debug: Annotated[bool, typer.Option("--debug", help="Show the trace of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    given = ctx.ensure_object(Given)
    given.config, given.database, given.debug = config, database, debug


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 failed, 2 wrong usage, 3 not configured or not reachable."""
    given = Given()
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        failures.check_words(words)
        code = get_command(app).main(words, prog_name="towpath", standalone_mode=False, obj=given)
        sys.stdout.flush()
    except Exception as error:
        return failures.tell(error, given.debug)
    except KeyboardInterrupt:
        return failures.INTERRUPTED
    except SystemExit:  # Typer's answer to a reader that went away; all else it returns or raises
        return failures.leave_quietly()
    return code if isinstance(code, int) else failures.DONE
