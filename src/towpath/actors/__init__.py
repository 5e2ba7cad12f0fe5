"""Durable state machines on the queue. May import `queue`, `db` and the core modules.

An actor is a class. An *instance* of it, `name:instance`, has an inbox of its own, `actor:name:instance`, and its
present state is a message in that inbox: function = the state's name, payload = its fields. So the queue is the
durable state, and a person can read it there.

1. A start is a message without a `related_id`. The *intake* takes it when the instance does not run: the start is held
   (ACK, by the instance) until the run ends, which is its answer, and a copy of it, related to it, is the first state.
   Anything else that arrives is refused as ERR. Answers arrive in another inbox, `actor:name:instance//reply`.
2. The row of the instance names the message that may run, its *head*. Nothing else ever runs, whatever lies in the
   inbox. A host, which is a process that knows the class, claims instances whose head is due, many at once.
3. A *turn* runs the state's code. What it sends, the next head (related to this one) and the end of this one commit
   together, with the turns of other instances. A next state that may run at once is written as claimed already.
4. A head that waits is delayed: until its time, or until its answers are there, which the intake notes.
5. A host that finds an instance running whose owner is not alive does what the state declares: the same state again,
   from the beginning, or fail. Nobody else frees it.
"""

from towpath.actors.actor import Actor, End, Failed, Resume, Sleep, Wait, state
from towpath.actors.schedules.model import Daily, Interval, Since, Window
from towpath.actors.service import Actors
from towpath.actors.spawner.job import Job
from towpath.actors.spawner.spawner import Spawner
from towpath.actors.spawner.store import spawned_of
from towpath.actors.turn import Turn

__all__ = [
    "Actor",
    "Actors",
    "Daily",
    "End",
    "Failed",
    "Interval",
    "Job",
    "Resume",
    "Since",
    "Sleep",
    "Spawner",
    "Turn",
    "Wait",
    "Window",
    "spawned_of",
    "state",
]
