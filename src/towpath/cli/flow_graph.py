"""`towpath flow graph`: the flow of a file, drawn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.failures import UsageError
from towpath.cli.options import AsJson
from towpath.cli.output import print_json

if TYPE_CHECKING:
    from towpath.flow.graph import Stage
    from towpath.flow.nodes import Node, Output
    from towpath.flow.takes import Takes

app = typer.Typer()

Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        show_default=False,
        help="`module:flow` or `path/to/file.py:flow`; the module or file alone if it has one flow.",
    ),
]


@app.command()
def graph(
    target: Target,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As a chart for mermaid, in place of a tree.")] = False,
    as_json: AsJson = False,
) -> None:
    """Draw the flow of a file: topics, steps and sinks. It is checked, and nothing is started."""
    from towpath.flow import graph as graphs
    from towpath.flow.flow_file import find_flow

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
        typer.echo(graphs.mermaid(stages))
    else:
        typer.echo(flow.name)
        for stage in stages:
            typer.echo("\n".join(drawn(stage)))


def drawn(stage: Stage) -> Iterator[str]:
    """A tree below each source. A step with several inputs stands below the first of them in full."""
    from towpath.flow.nodes import Output

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
    from towpath.flow.nodes import AnyOf, Branch, Each, Fork, Output, Source, Step

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


def _takes(takes: Takes) -> str:
    return "" if takes.is_everything else f", takes {takes}"
