"""What a command knows of actors: by the code of the configured modules, and by what processes have written down."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.failures import UsageError, say
from towpath.cli.given import Given, open_runtime
from towpath.errors import DatabaseUnavailable, UnknownActor

if TYPE_CHECKING:
    from towpath.actors.discovery import Found
    from towpath.actors.known import Known
    from towpath.runtime import Runtime

Name = Annotated[str, typer.Argument(metavar="ACTOR", show_default=False, help="The actor's name.")]
Target = Annotated[
    str,
    typer.Argument(
        metavar="ACTOR[:INSTANCE]", show_default=False, help="The actor's name, and which instance; `main` if not said."
    ),
]


def split(target: str) -> tuple[str, str | None]:
    """`actor:instance` or `actor`."""
    actor, sign, instance = target.partition(":")
    if not actor or (sign and not instance):
        raise UsageError(f"{target!r} is not ACTOR or ACTOR:INSTANCE")
    return actor, instance or None


def found_here(ctx: typer.Context) -> dict[str, Found]:
    """The actors of the configured modules. What is wrong with one is said, and does not hide the others."""
    from towpath.actors.known import found_in
    from towpath.settings import directory_of

    given = ctx.ensure_object(Given)
    found, broken = found_in(given.settings().actors.modules, directory_of(given.config))
    for each in broken:
        say(f"warning: {each.error}")
    return found


def look_at_class(ctx: typer.Context, name: str) -> Known:
    """One class. When its code is here, no database is needed."""
    from towpath.actors.known import Known, known_actor, known_actors
    from towpath.actors.shape import shape_of

    found = found_here(ctx)
    if name in found:
        definition = found[name].definition
        return Known(name, definition.about, shape_of(definition), definition=definition)
    try:
        with open_runtime(ctx) as runtime:
            return known_actor(known_actors(runtime.actors.known(), found), name)
    except DatabaseUnavailable as error:
        raise UnknownActor(
            f"no actor {name!r} is in the modules that actors.modules in towpath.toml names, and nothing more is known "
            f"without a database: {error}"
        ) from error


@contextmanager
def open_actors(ctx: typer.Context) -> Iterator[tuple[Runtime, dict[str, Known]]]:
    """A runtime, and all actors that are known; a class that nobody has run yet is made known to all."""
    from towpath.actors.known import known_actors, new_classes

    found = found_here(ctx)
    with open_runtime(ctx) as runtime:
        runtime.actors.register(*new_classes(runtime.actors.known(), found))
        yield runtime, known_actors(runtime.actors.known(), found)
