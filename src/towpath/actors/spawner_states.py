"""The states of a spawner. `failures` counts launches in a row that came to nothing."""

from __future__ import annotations

from towpath.actors.state import Resume, state


@state(resume=Resume.RETRY)
class Watch:
    """No process runs; one is started when a message waits."""

    failures: int = 0


@state(resume=Resume.RETRY)
class Launch:
    """A process is started."""

    launch_id: str
    failures: int = 0
    is_doubtful: bool = False  # one may have been started already


@state(resume=Resume.RETRY)
class Attend:
    """A process runs."""

    launch_id: str
    failures: int = 0


@state(resume=Resume.RETRY)
class Stop:
    """A process was told to end; it is killed when it takes too long."""

    launch_id: str
    failures: int
    why: str
    kill_at_us: int
    is_failure: bool = False
