"""Settings of actors."""

from __future__ import annotations

from pydantic import Field

from towpath.settings.part import Age, Part, Seconds


class ActorSettings(Part):
    """Actors: durable state machines on the queue."""

    modules: list[str] = Field(
        [],
        description="Python modules or `.py` files whose actors `towpath actor run` runs, seen from the directory of "
        "the settings file.",
    )
    workers: int = Field(
        16, ge=1, le=256, description="How many states may run at once in one process, each in a thread."
    )
    grace_s: Seconds = Field(
        10.0, description="How long a process that is told to stop lets the states finish that run."
    )
    directory: str = Field(
        ".towpath/actors", description="What processes write that spawner actors run: one log an instance."
    )
    retention_s: Age = Field(
        14 * 86400.0,
        description="Age at which an instance that a call has made and that has ended is deleted, or `never`.",
    )
    failed_retention_s: Age = Field(
        None, description="The same for one that has failed; kept by default, until a person has looked at it."
    )
