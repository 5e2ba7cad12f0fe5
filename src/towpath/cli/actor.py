"""`towpath actor`: looking at actors and their instances."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.actor_classes import Target, found_here, split
from towpath.cli.failures import UsageError
from towpath.cli.given import open_runtime
from towpath.cli.options import DEFAULT_ROWS, AsJson, Limit
from towpath.cli.output import console, print_json
from towpath.exact_json import Exact

if TYPE_CHECKING:
    from towpath.runtime import Runtime

app = typer.Typer(help="Run actors, look at them, start and stop them by hand.", no_args_is_help=True)

After = Annotated[
    str | None, typer.Option(metavar="CURSOR", help="Go on where a list ended: the cursor that it printed.")
]
HISTORY = 20


@app.command("list")
def list_(
    ctx: typer.Context,
    actor: Annotated[
        str | None, typer.Argument(metavar="[ACTOR]", show_default=False, help="The instances of this one.")
    ] = None,
    instances: Annotated[bool, typer.Option("--instances", help="The instances of all actors.")] = False,
    phase: Annotated[
        str | None,
        typer.Option(
            metavar="PHASE",
            help="Only instances that are idle, ready, running, sleeping, waiting, ended or failed.",
        ),
    ] = None,
    limit: Limit = DEFAULT_ROWS,
    after: After = None,
    as_json: AsJson = False,
) -> None:
    """Actors, with how many instances each has in which phase; or instances, by name."""
    from towpath.actors.actor_json import class_item
    from towpath.actors.known import known_actors
    from towpath.cli.actor_view import print_classes

    if actor is not None or instances or phase is not None or after is not None:
        _list_instances(ctx, actor, phase, limit, after, as_json)
        return
    found = found_here(ctx)
    with open_runtime(ctx) as runtime:
        known = known_actors(runtime.actors.known(), found)
        counts = runtime.actors.browser().counts()
    if as_json:
        print_json({"items": [class_item(each, counts.get(each.name, {})) for each in known.values()]})
        return
    print_classes(known.values(), counts)
    if not known:
        console().print("none is known; actors.modules in towpath.toml names the modules that have some", style="dim")


def _list_instances(
    ctx: typer.Context, actor: str | None, phase: str | None, limit: int, after: str | None, as_json: bool
) -> None:
    from towpath.actors.actor_json import instance_item
    from towpath.actors.phase import Phase
    from towpath.cli.actor_view import print_instances
    from towpath.clock import to_datetime
    from towpath.queue.payload import ACTORS

    if phase is not None and phase not in tuple(Phase):
        raise UsageError(f"--phase {phase!r}: an instance is {', '.join(Phase)}")
    with open_runtime(ctx) as runtime:
        if actor is not None:
            _check_has_any(ctx, runtime, actor)
        # One more than asked for tells whether there is a next page.
        found = runtime.actors.instances(
            actor=actor,
            phase=None if phase is None else Phase(phase),
            after="" if after is None else f"{ACTORS}{after}",
            limit=limit + 1,
        )
        now = to_datetime(runtime.database.now())
    page = found[:limit]
    cursor = page[-1].name if len(found) > limit else None
    if as_json:
        print_json({"items": [instance_item(each) for each in page], "next": cursor})
    else:
        print_instances(page, now, cursor)


def _check_has_any(ctx: typer.Context, runtime: Runtime, actor: str) -> None:
    """A list of nothing would hide a wrong name."""
    from towpath.actors.known import known_actor, known_actors

    if not runtime.actors.instances(actor=actor, limit=1):
        known_actor(known_actors(runtime.actors.known(), found_here(ctx)), actor)


@app.command()
def show(
    ctx: typer.Context,
    target: Target,
    last: Annotated[
        int, typer.Option(min=0, max=10_000, metavar="N", help="How many messages of its history.")
    ] = HISTORY,
    as_json: AsJson = False,
) -> None:
    """One actor or instance: what it is, does and waits for, its fields, what it did before, why it failed."""
    from towpath.actors.actor_json import class_item, look_item
    from towpath.actors.instance import MAIN
    from towpath.actors.known import known_actor, known_actors
    from towpath.cli.actor_show import print_look
    from towpath.cli.actor_view import print_class
    from towpath.clock import to_datetime

    name, instance = split(target)
    found = found_here(ctx)
    with open_runtime(ctx) as runtime:
        known = known_actors(runtime.actors.known(), found)
        one = runtime.actors.look(name, instance or MAIN, last=last)
        if one is None and (instance is not None or name not in known):
            known_actor(known, name)
            runtime.actors.instance(name, instance or MAIN)  # says that there is none
        counts = runtime.actors.browser().counts().get(name, {})
        now = to_datetime(runtime.database.now())
    cls = known.get(name)
    if as_json:
        described = None if cls is None else {**class_item(cls, counts), "shape": cls.shape}
        print_json({"actor": described, "instance": None if one is None else look_item(one, cls, Exact)})
        return
    if cls is not None and (one is None or instance is None):
        print_class(cls, counts)
    if one is not None:
        if cls is not None and instance is None:
            typer.echo()
        print_look(one, cls, now)
