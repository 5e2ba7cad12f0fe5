"""A process that hosts the workflow: it runs the actors, and they run the processes of the parts."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from examples.harvest.home import Home
from examples.harvest.parts.leftovers import know_removals
from examples.harvest.workflow import ACTORS, PARTS, PEOPLE

import towpath
from towpath.actors.instance import LIVE
from towpath.actors.spawner.store import SpawnedStore, spawned_of
from towpath.core import logs
from towpath.errors import UnknownActor
from towpath.runtime import Runtime


@contextmanager
def opened(home: Home, database: Mapping[str, Any] | None = None) -> Iterator[Runtime]:
    """Towpath with the settings of a harvest, and the actors known."""
    home.path.mkdir(parents=True, exist_ok=True)
    with towpath.connect(**home.settings(database)) as runtime:
        logs.configure(runtime.settings.logging)
        runtime.queue.inbox(PEOPLE)
        runtime.actors.register(*ACTORS)
        know_removals(runtime)
        yield runtime


def begin_to_watch(runtime: Runtime) -> None:
    """Start the spawners that do not watch their inboxes yet, or have given up."""
    for spawner in PARTS.values():
        if not is_live(runtime, spawner.name):
            runtime.actors.start(spawner)


def let_go(runtime: Runtime) -> None:
    """Processes that wait for another order end now; one that is at work brings it to its end."""
    store = SpawnedStore(runtime.database)
    for spawner in PARTS.values():
        spawned = spawned_of(runtime.database, spawner.name)
        if spawned is not None and spawned.launch_id is not None and spawned.message_id is None:
            with runtime.database.transaction() as tx:
                store.ask_stop(tx, spawned.spawner, spawned.launch_id, "there is nothing more to do")


def is_live(runtime: Runtime, actor: str, instance: str = "main") -> bool:
    """Whether an instance is on its way."""
    try:
        return runtime.actors.instance(actor, instance).phase in LIVE
    except UnknownActor:
        return False


def main(home: Path, database: str | None = None) -> None:
    """Host until a signal says otherwise."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    with opened(Home(home), None if database is None else {"url": database}) as runtime:
        begin_to_watch(runtime)
        host = runtime.actors.host()
        host.start()
        try:
            while not stopping.is_set():  # the handler runs when this thread does, whichever got the signal
                time.sleep(0.2)
        finally:
            host.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None)
