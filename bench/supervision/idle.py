"""The actor of the processes that are watched: nobody starts it."""

from __future__ import annotations

from towpath.actors import Actor, End, Resume, Turn, state


@state(resume=Resume.RETRY)
class Nothing:
    """Is over at once."""


class Idle(Actor):
    """Does nothing."""

    def transition(self, state: Nothing | End, _: Turn) -> End | None:
        return End() if isinstance(state, Nothing) else None
