"""What the children of the log's recovery tests do: `python -m tests.recovery.log_acts '{"act": …}'`.

Every act says in the journal what it did, so that the log can be held against a record that is not its own.
"""

from __future__ import annotations

from pathlib import Path

from towpath.db import open_database
from towpath.log import Log, NewRecord, open_log, portions
from towpath.settings import DatabaseSettings, LogSettings
from towpath.testing.processes import leave_with_parent, order
from towpath.testing.queue_ledger import Entry, Journal, entries

SOURCE, LEFT, RIGHT = "source", "left", "right"
BATCHES = 6
BATCH = 10
GROUP = "readers"
PRODUCER = "mover"


def main() -> None:
    leave_with_parent()
    told = order()
    portions.MOST_RECORDS = told["portion"]
    database = open_database(DatabaseSettings(**told["database"]))
    log = open_log(LogSettings(**told["log"]), database)
    prefix = told["prefix"]
    path = Path(told["journal"])
    ACTS[told["act"]](log, Journal(path), prefix, entries(path))
    log.close()
    database.close()


def batch(number: int) -> list[NewRecord]:
    return [NewRecord(b"%d/%d" % (number, n), key=b"%d" % n) for n in range(BATCH)]


def append(log: Log, journal: Journal, prefix: str, before: list[Entry]) -> None:
    """Plain appends; what was begun by an earlier process is not begun again."""
    for number in range(sum(entry["did"] == "begun" for entry in before), BATCHES):
        journal.write(did="begun", batch=number)
        log.append(f"{prefix}-{LEFT}", batch(number))
        journal.write(did="appended", batch=number)


def move(log: Log, journal: Journal, prefix: str, before: list[Entry]) -> None:
    """Each transaction writes to two topics and says how far it has come; a successor goes on from there."""
    producer = log.producer(f"{prefix}-{PRODUCER}")
    source = (f"{prefix}-{SOURCE}", 0)
    for number in range(log.positions(f"{prefix}-{GROUP}").get(source, 0), BATCHES):
        with producer.transaction() as tx:
            tx.append(f"{prefix}-{LEFT}", batch(number))
            tx.append(f"{prefix}-{RIGHT}", batch(number))
            tx.commit_positions(f"{prefix}-{GROUP}", {source: number + 1})
        journal.write(did="moved", batch=number)


def make_and_delete(log: Log, journal: Journal, prefix: str, before: list[Entry]) -> None:
    """Make a topic, fill it, delete it; whatever an earlier process left is used."""
    name = f"{prefix}-short-lived"
    if name not in [topic.name for topic in log.topics()]:
        log.create_topic(name, 3)
    journal.write(did="made")
    log.append(name, batch(0))
    log.delete_topic(name)
    journal.write(did="deleted")


def shorten(log: Log, journal: Journal, prefix: str, before: list[Entry]) -> None:
    """Delete the older half of a topic."""
    name = f"{prefix}-{LEFT}"
    log.delete_before(name, {0: log.ends(name)[0] // 2})
    journal.write(did="shortened")


ACTS = {act.__name__: act for act in (append, move, make_and_delete, shorten)}

if __name__ == "__main__":
    main()
