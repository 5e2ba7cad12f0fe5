"""`towpath actor graph` and `template`: an actor drawn, and what a start of it needs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from towpath.cli.actor_classes import Name, look_at_class
from towpath.cli.failures import UsageError
from towpath.cli.options import AsJson
from towpath.cli.output import plain, pretty, print_json

app = typer.Typer()


@app.command()
def graph(
    ctx: typer.Context,
    actor: Name,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As a chart for mermaid, in place of a list.")] = False,
    svg: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write it as a picture; `-` is standard output.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Draw the states of an actor and the moves between them, as its code has them. Nothing is run."""
    from towpath.actors.drawing import svg as as_svg
    from towpath.actors.drawing_text import lines
    from towpath.actors.drawing_text import mermaid as as_mermaid

    if mermaid + as_json + (svg is not None) > 1:
        raise UsageError("--mermaid, --svg and --json: only one of them")
    known = look_at_class(ctx, actor)
    if as_json:
        print_json({"actor": known.name, "about": known.about, **known.shape})
    elif mermaid:
        typer.echo(as_mermaid(known.shape))
    elif svg is None:
        typer.echo("\n".join(map(plain, lines(known.name, known.about, known.shape))))
    elif svg == "-":
        typer.echo(as_svg(known.name, known.about, known.shape), nl=False)
    else:
        write(Path(svg), as_svg(known.name, known.about, known.shape))


def write(path: Path, text: str) -> None:
    """Into a file, which is told."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    typer.echo(f"wrote {path}")


@app.command()
def template(
    ctx: typer.Context,
    actor: Name,
    state: Annotated[
        str | None, typer.Option(metavar="STATE", help="Of this state; the actor's first if not given.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """The JSON that a start needs: the fields of a state, to be filled in. `--payload -` of `actor start` reads it."""
    known = look_at_class(ctx, actor)
    wanted = known.state(state)
    if as_json:
        print_json({"actor": known.name, "state": wanted["name"], "template": wanted["template"]})
    else:
        typer.echo(pretty(wanted["template"]))
