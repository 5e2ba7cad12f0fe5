"""Work on one message by a spawned process: from taking it up to bringing it to its end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from towpath.actors.spawned import SpawnedStore
from towpath.actors.spawned_job import Cancelled, Job, JobFailed
from towpath.actors.spawned_leash import Leash
from towpath.actors.spawned_patience import AWAY_S, PAUSE_S, patiently
from towpath.db import Transaction
from towpath.errors import BadPayload, BadValue, ClaimLost, CommitUnknown, DatabaseError
from towpath.queue.handling import Handling, handling
from towpath.queue.inbox import Inbox
from towpath.queue.message import GiveBack, Message
from towpath.queue.state import MessageState

if TYPE_CHECKING:
    from towpath import Runtime

logger = logging.getLogger(__name__)


class Work:
    """What one process does, message after message."""

    def __init__(
        self, runtime: Runtime, inbox: Inbox, store: SpawnedStore, launch_id: str, process_id: str, leash: Leash
    ) -> None:
        self._runtime = runtime
        self._database = runtime.database
        self._inbox = inbox
        self._store = store
        self._launch_id = launch_id
        self._process_id = process_id
        self._leash = leash

    def get_ready(self) -> None:
        """Messages are asked for from now on: what goes wrong before this is no message's fault."""
        with self._database.single() as tx:
            self._store.get_ready(tx, self._launch_id, self._process_id)

    def do(self, message: Message, handler: Callable[[Job], Any]) -> None:
        """Raises `Cancelled` when it is not to be done."""
        if not patiently(lambda: self._take_up(message)):
            self._inbox.release(message)
            raise Cancelled
        job = self._leash.job = Job(message, self._runtime)
        try:
            outcome = self._run(job, handler)
        finally:
            self._leash.job = None  # before its message moves, which would look as if somebody else had moved it
        self._end(message, outcome)

    def _take_up(self, message: Message) -> bool:
        with self._database.single() as tx:
            return self._store.take_up(tx, self._launch_id, self._process_id, message.id, message.failures)

    def _run(self, job: Job, handler: Callable[[Job], Any]) -> Any:
        message = job.message
        with handling(Handling(message)):
            try:
                return handler(job)
            except (Cancelled, KeyboardInterrupt):
                raise
            except BaseException as error:  # sys.exit() ends its message, not the process
                logger.warning("%s %s failed", message.function, message.id, exc_info=True)
                return JobFailed(f"{type(error).__name__}: {error}")

    def _end(self, message: Message, outcome: Any) -> None:
        """Bring it to its end, also when the database is away for a while."""
        deadline, in_doubt = time.monotonic() + AWAY_S, False
        while True:
            try:
                if not (in_doubt and self._was_ended(message, outcome)):
                    self._move(message, outcome)
                return
            except ClaimLost as lost:
                logger.warning("%s", lost)
                self._put_down()
                return
            except (BadPayload, BadValue) as bad:
                outcome = JobFailed(f"the answer cannot be sent: {bad}")
            except DatabaseError as away:
                in_doubt = in_doubt or isinstance(away, CommitUnknown)
                if time.monotonic() > deadline:
                    raise
                time.sleep(PAUSE_S)

    def _was_ended(self, message: Message, outcome: Any) -> bool:
        state = MessageState.ERR if isinstance(outcome, JobFailed) else MessageState.OK
        with self._database.read() as tx:
            return self._runtime.queue.parts.messages.already_ended(tx, message, state)

    def _move(self, message: Message, outcome: Any) -> None:
        with self._database.transaction() as tx:
            self._end_message(tx, message, outcome)
            self._store.put_down(tx, self._launch_id, self._process_id)

    def _put_down(self) -> None:
        with suppress(DatabaseError), self._database.single() as tx:
            self._store.put_down(tx, self._launch_id, self._process_id)

    def _end_message(self, tx: Transaction, message: Message, outcome: Any) -> None:
        match outcome:
            case JobFailed(reason):
                self._inbox.fail(message, reason, tx=tx)
            case GiveBack(after_s):
                self._inbox.release(message, after_s, tx=tx)
            case _:
                self._inbox.finish(message, outcome, tx=tx)
