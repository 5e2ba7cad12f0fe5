"""How the coordinator reaches processes, on its own host and on others, and frees what a dead process had claimed.

On its own host it uses the launchers, in threads: nothing here waits. On another host it asks over the queue, and a
peer of that host does it (`request_inbox`). A request names the duty and the launch; the rest is read from the duty's
row. So a late request finds its launch replaced and does nothing, and the coordinator finds the result in the row too.

What is under way is not begun a second time; what failed can be asked for again at the next look.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from towpath.core.clock import Clock
from towpath.core.events import EventKind, Events
from towpath.db import Database, Transaction
from towpath.db.event_log import EventLog
from towpath.db.processes import ProcessStore
from towpath.errors import LauncherError, TowpathError
from towpath.notify.model import Teller
from towpath.queue import Outbox, Queue
from towpath.queue.consumers import SynchronousInbox
from towpath.queue.janitor import Caretaker
from towpath.queue.model import Message
from towpath.queue.store import MessageStore
from towpath.settings import SupervisionSettings
from towpath.supervision.duties.model import Duty
from towpath.supervision.duties.process_control import ProcessControl
from towpath.supervision.duties.store import DeathStore, DutyCache, DutyStore
from towpath.supervision.peers.socket import Address
from towpath.supervision.term import TermKeeper

logger = logging.getLogger(__name__)

REQUEST_TTL_S = 10.0  # the coordinator asks again as long as it wants it
OUTBOX = "supervision"
VERBS = ("start", "stop", "kill")
WORKERS = 8
ASK_AGAIN_S = 3.0
MOST_COUNTED = 2_000

Ping = Callable[[str, Address, int], None]


@dataclass(frozen=True, slots=True)
class CoordinatorContext:
    """What the coordinator works with."""

    settings: SupervisionSettings
    lease_s: float  # of processes
    database: Database
    events: Events
    event_log: EventLog
    terms: TermKeeper
    duties: DutyStore
    cache: DutyCache
    deaths: DeathStore
    processes: ProcessStore
    freeing: ClaimRelease
    reach: ProcessReach
    teller: Teller
    ping: Ping


class ProcessReach:
    """`start`, `stop` and `kill` of a duty's present launch, wherever it runs."""

    def __init__(self, host: str, control: ProcessControl, queue: Queue, clock: Clock) -> None:
        self._host = host
        self._control = control
        self._queue = queue
        self._clock = clock
        self._outbox: Outbox | None = None
        self._lock = threading.Lock()
        self._under_way: set[tuple[str, str]] = set()
        self._asked_at: dict[tuple[str, str], float] = {}
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="hands")

    def is_here(self, duty: Duty) -> bool:
        return duty.host == self._host

    def being_started(self) -> set[str]:
        """The ids of launches at which a launcher of this host is now."""
        with self._lock:
            return {launch_id for verb, launch_id in self._under_way if verb == "start"}

    def do(self, verb: str, duty: Duty) -> None:
        """Have it done, unless it is being done."""
        key = verb, duty.launch_id or ""
        if not self.is_here(duty):
            self._ask(key, duty)
        elif self._begin(key):
            self._pool.submit(self._work, key, duty)

    def forget(self, launch_ids: set[str]) -> None:
        """Only these launches are there any more."""
        self._asked_at = {key: at for key, at in self._asked_at.items() if key[1] in launch_ids}

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _begin(self, key: tuple[str, str]) -> bool:
        with self._lock:
            is_new = key not in self._under_way
            self._under_way.add(key)
        return is_new

    def _work(self, key: tuple[str, str], duty: Duty) -> None:
        try:
            getattr(self._control, key[0])(duty)
        except LauncherError as error:
            logger.warning("cannot %s %s: %s", key[0], duty.name, error)
        except TowpathError as error:
            logger.warning("%s of %s came to nothing: %s", key[0], duty.name, error)
        except Exception:
            logger.exception("%s of %s came to nothing", key[0], duty.name)
        finally:
            with self._lock:
                self._under_way.discard(key)

    def _ask(self, key: tuple[str, str], duty: Duty) -> None:
        now = self._clock.monotonic()
        if now - self._asked_at.get(key, float("-inf")) < ASK_AGAIN_S:
            return
        self._asked_at[key] = now
        if self._outbox is None:
            self._outbox = self._queue.outbox(OUTBOX)
        self._queue.inbox(inbox_of(duty.host))  # so that it is known before a peer of that host runs
        payload = {"duty": duty.name, "launch_id": duty.launch_id}
        self._outbox.notice(inbox_of(duty.host), key[0], payload, ttl_s=REQUEST_TTL_S)


def request_inbox(database: Database, queue: Queue, host: str, control: ProcessControl) -> SynchronousInbox:
    """The service in which a peer does on its host what the coordinator asks."""
    duties = DutyStore(database)

    def handle(message: Message) -> None:
        name, launch_id = message.payload["duty"], message.payload["launch_id"]
        with database.glance() as tx:
            found = [duty for duty in duties.all(tx) if duty.name == name and duty.launch_id == launch_id]
        if found:
            getattr(control, message.function)(found[0])

    inbox = queue.synchronous(inbox_of(host))
    for verb in VERBS:
        inbox.on(verb)(handle)
    return inbox


def inbox_of(host: str) -> str:
    """Where the peers of a host are asked."""
    return f"supervision.{host}"


class ClaimRelease:
    """Frees the messages that a dead process had claimed, sooner than others would, who wait until they see it dead.

    Only for a process that is gone for certain. Its instances of actors, stages of flows and lanes are taken over by
    whoever can run them, as soon as its row says dead.
    """

    def __init__(self, database: Database, event_log: EventLog, caretaker: Caretaker) -> None:
        self._database = database
        self._event_log = event_log
        self._caretaker = caretaker
        self._processes = ProcessStore(database)
        self._messages = MessageStore(database)

    def free(self, process_id: str) -> int | None:
        """Call it dead, and move the messages that it had claimed; returns how many. None: others are at it, ask again.

        May be done again, and by several at once.
        """
        with self._database.beats.transaction() as tx:
            self._processes.mark_gone(tx, process_id)
        self._caretaker.bury_the_dead()
        with self._database.read() as tx:
            is_freed = process_id not in self._messages.owners_with_claims(tx)
            return self._count_freed(tx, process_id) if is_freed else None

    def _count_freed(self, tx: Transaction, process_id: str) -> int:
        """Whoever has moved them: others look for the dead too. Of very many, as many as were looked at."""
        return sum(
            event.data.get("owner") == process_id
            for kind in (EventKind.CLAIM_FREED, EventKind.MESSAGE_GIVEN_UP)
            for event in self._event_log.page(tx, limit=MOST_COUNTED, kind=kind)
        )
