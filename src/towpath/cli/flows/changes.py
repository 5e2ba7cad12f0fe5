"""`towpath flow`: steering flows by hand, and looking at the flow of a file before it runs.

Steering leaves an event with who, what and why. The process that runs a stage obeys at its next turn; the command waits
for that and says what came of it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from towpath.cli.context import FAILED, UsageError, open_runtime
from towpath.cli.flows.commands import FlowName, StageName
from towpath.cli.options import AsJson, Who, Why, Yes, confirm, spread
from towpath.cli.output import print_json

if TYPE_CHECKING:
    from towpath.flow.graph.nodes import InputFilter, Node, Output
    from towpath.flow.graph.stages import Stage
    from towpath.flow.stage.states import StageCommandKind
    from towpath.flow.stage.status import StageStatus
    from towpath.runtime import Runtime


app = typer.Typer()

WAIT_S = 15.0
ROUND_S = 0.1

Wait = Annotated[
    float, typer.Option(min=0, metavar="SECONDS", help="How long to wait until the process that runs it has done it.")
]
Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        show_default=False,
        help="`module:flow` or `path/to/file.py:flow`; the module or file alone if it has one flow.",
    ),
]
NEXT_START = "nobody runs it: it will be done at the next start (towpath run)"


@dataclass(frozen=True)
class SteeringOptions:
    """Options of every command that steers stages; see `spread`."""

    why: Why
    stage: StageName = None
    wait: Wait = WAIT_S
    who: Who = ""
    as_json: AsJson = False


@app.command()
@spread
def pause(ctx: typer.Context, flow: FlowName, given: SteeringOptions) -> None:
    """Let it rest until somebody says resume, also over a restart. Its process goes on."""
    _ask(ctx, flow, "pause", given)


@app.command()
@spread
def resume(ctx: typer.Context, flow: FlowName, given: SteeringOptions) -> None:
    """Go on after a pause or a halt. A stage that waits for its next try makes it now."""
    _ask(ctx, flow, "resume", given)


@app.command()
@spread
def stop(ctx: typer.Context, flow: FlowName, given: SteeringOptions) -> None:
    """End it after its present batch. Its process ends when none of its stages is left."""
    _ask(ctx, flow, "stop", given)


@app.command()
def reset(
    ctx: typer.Context,
    flow: FlowName,
    why: Why,
    stage: StageName = None,
    to: Annotated[
        Literal["earliest", "latest"], typer.Option(help="Where to go on: what is still there, or what comes next.")
    ] = "earliest",
    yes: Yes = False,
    wait: Wait = WAIT_S,
    who: Who = "",
    as_json: AsJson = False,
) -> None:
    """Begin anew from other positions, with a new checkpoint: records may be loaded again, or never."""
    from towpath.flow.stage.history import MEANS

    if not yes:
        confirm(f"{MEANS[to]}\nReset {flow}{f'/{stage}' if stage else ''} to {to}?", "nothing was changed")
    _ask(ctx, flow, "reset", SteeringOptions(why, stage, wait, who, as_json), {"to": to})


@app.command()
def graph(
    target: Target,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As a chart for mermaid, in place of a tree.")] = False,
    as_json: AsJson = False,
) -> None:
    """Draw the flow of a file: topics, steps and sinks. It is checked, and nothing is started."""
    from towpath.flow.flow import find_flow
    from towpath.flow.graph import stages as charts

    if mermaid and as_json:
        raise UsageError("--mermaid and --json: only one of them")
    flow = find_flow(target).flow
    stages = flow.stages()
    if as_json:
        shapes = [
            {"name": stage.name, "fingerprint": stage.fingerprint(), "topology": stage.topology()} for stage in stages
        ]
        print_json({"flow": flow.name, "stages": shapes})
    elif mermaid:
        typer.echo(charts.mermaid([stage.topology() for stage in stages]))
    else:
        typer.echo(flow.name)
        for stage in stages:
            typer.echo("\n".join(_drawn(stage)))


@app.command()
def check(ctx: typer.Context, target: Target, as_json: AsJson = False) -> None:
    """Compare the flow of a file with its last run: what has changed, what it means, and whether it is refused.

    Nothing is started or changed. The exit code is 1 when a stage would halt.
    """
    from towpath.flow.flow import find_flow
    from towpath.flow.stage.comparison import FlowComparer

    flow = find_flow(target).flow
    with open_runtime(ctx) as runtime:
        found = FlowComparer(runtime.database, runtime.log, flow).all()
    if as_json:
        stages = [{"stage": one.stage, "changes": list(one.changes), "refused": one.refused} for one in found]
        print_json({"flow": flow.name, "stages": stages})
    else:
        for one in found:
            for text in one.changes:
                typer.echo(f"{flow.name}/{one.stage}: {text}")
            if one.refused is not None:
                typer.echo(f"{flow.name}/{one.stage} would halt: {one.refused}")
            elif not one.changes:
                typer.echo(f"{flow.name}/{one.stage}: {'as in its last run' if one.has_run else 'has not run yet'}")
    if any(one.refused is not None for one in found):
        raise typer.Exit(FAILED)


def _ask(
    ctx: typer.Context, flow: str, kind: str, given: SteeringOptions, arguments: dict[str, Any] | None = None
) -> None:
    from towpath.flow.stage.states import StageCommandKind
    from towpath.flow.stage.status import StageCommands, is_done
    from towpath.operations.flows import stage_item

    command = StageCommandKind(kind)
    with open_runtime(ctx) as runtime:
        commands = StageCommands(runtime.database, runtime.event_log)
        before = commands.ask(flow, command, who=given.who, why=given.why, stage=given.stage, arguments=arguments)
        pairs = _answered(runtime, before, command, given.wait)
    if given.as_json:
        print_json({"items": [{**stage_item(look), "is_done": is_done(command, was, look)} for was, look in pairs]})
        return
    for was, look in pairs:
        typer.echo(f"{flow}/{look.stage.name}: {_what_came(command, was, look, given.wait)}")


def _answered(
    runtime: Runtime, before: list[StageStatus], kind: StageCommandKind, wait_s: float
) -> list[tuple[StageStatus, StageStatus]]:
    """The stages before and now, once all running ones have carried out the command or the time is over."""
    from towpath.flow.stage.status import is_done, stage_statuses

    deadline = time.monotonic() + wait_s
    while True:
        now = {look.stage.name: look for look in stage_statuses(runtime.database, before[0].stage.flow)}
        pairs = [(was, now[was.stage.name]) for was in before]
        is_open = any(look.is_run and not is_done(kind, was, look) for was, look in pairs)
        if not is_open or time.monotonic() >= deadline:
            return pairs
        time.sleep(ROUND_S)


def _what_came(kind: StageCommandKind, was: StageStatus, look: StageStatus, wait_s: float) -> str:
    from towpath.flow.stage.status import is_done

    if is_done(kind, was, look):
        moved = "" if was.stage.machine.state is look.stage.machine.state else f"; it was {was.stage.machine.state}"
        generation = look.stage.generation
        anew = f", in generation {generation} now" if generation != was.stage.generation else ""
        return f"done: {look.state}{moved}{anew}"
    if look.is_run:
        return f"asked; {look.stage.owner} has not done it within {wait_s:g} s, and will after its present batch"
    return f"asked; {NEXT_START}"


def _drawn(stage: Stage) -> Iterator[str]:
    """A tree below each source. A step with several inputs stands below the first of them in full."""
    from towpath.flow.graph.nodes import Output

    seen: set[int] = set()

    def below(node: Node) -> list[Node | Output]:
        users: tuple[Node | Output, ...] = (*stage.nodes, *stage.outputs)
        return [user for user in users if any(above is node for above in user.inputs)]

    def branch(item: Node | Output, lead: str, is_last: bool) -> Iterator[str]:
        again = id(item) in seen
        yield f"{lead}{'└─' if is_last else '├─'} {_words(item)}{' (see above)' if again else ''}"
        seen.add(id(item))
        inner = [] if again or isinstance(item, Output) else below(item)
        for number, each in enumerate(inner, 1):
            yield from branch(each, lead + ("   " if is_last else "│  "), number == len(inner))

    for number, source in enumerate(stage.sources, 1):
        yield from branch(source, "", number == len(stage.sources))


def _words(item: Node | Output) -> str:
    from towpath.flow.graph.nodes import AnyOf, Branch, Each, Fork, Output, Source, Step

    match item:
        case Source():
            topics = ", ".join(item.topics)
            name = "" if item.name == "+".join(item.topics) else f"{item.name}: "
            return f"{name}topic {topics}" + _expects(item.expectations) + ("" if item.schema else " (no schema)")
        case Step():
            return f"{item.name} (step)" + _expects(item.expectations) + _takes(item.takes)
        case Each():
            limit = "" if item.timeout_s is None else f", {item.timeout_s:g} s at most"
            return f"{item.name} (each record{limit})" + _takes(item.takes)
        case Fork():
            return f"{item.name} (fork)" + _takes(item.takes)
        case Branch():
            return item.output
        case AnyOf():
            return f"{item.name} (any of these)"
        case Output():
            name = "" if item.name == str(item.sink) else f"{item.name}: "
            return f"▶ {name}{item.sink}"


def _expects(expectations: tuple[tuple[str, str], ...]) -> str:
    return f", expects {', '.join(name for name, _ in expectations)}" if expectations else ""


def _takes(takes: InputFilter) -> str:
    return "" if takes.is_everything else f", takes {takes}"
