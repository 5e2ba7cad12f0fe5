"""`towpath flow check`: what would be announced or refused if the flow of a file were run now."""

from __future__ import annotations

import typer

from towpath.cli.failures import FAILED
from towpath.cli.flow_graph import Target
from towpath.cli.given import open_runtime
from towpath.cli.options import AsJson
from towpath.cli.output import print_json

app = typer.Typer()


@app.command()
def check(ctx: typer.Context, target: Target, as_json: AsJson = False) -> None:
    """Compare the flow of a file with its last run: what has changed, what it means, and whether it is refused.

    Nothing is started or changed. The exit code is 1 when a stage would halt.
    """
    from towpath.flow.changing import Comparing
    from towpath.flow.flow_file import find_flow

    flow = find_flow(target).flow
    with open_runtime(ctx) as runtime:
        found = Comparing(runtime.database, runtime.log, flow).all()
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
