"""Where the log keeps how far a sender is: a group of its own, whose position is a number of bytes.

It is a position in a topic that never has a record: in the topic of the lines it would look like a reader that is
behind, and nothing there would ever be deleted.
"""

from __future__ import annotations

from towpath.errors import TopicExists, UnknownTopic
from towpath.flow.topics import FOREVER, producer_of, shortened
from towpath.log.log import Log

TOPIC = "towpath.uploads"
SPOT = (TOPIC, 0)
GROUP_PREFIX = "towpath.gateway."


def sender_group(upload: str, sender: str) -> str:
    """The group of a sender; the janitor forgets it when the upload has ended."""
    return shortened(f"{GROUP_PREFIX}{upload}.{sender}")


def sender_producer(upload: str, sender: str) -> str:
    """The producer of a sender: whoever opens it last is the one that serves it."""
    return producer_of("gateway", upload, sender)


def ensure_topic(log: Log, name: str, partitions: int | None = None, *, is_forever: bool = False) -> None:
    """Make the topic if it is not there."""
    try:
        log.topic(name)
    except UnknownTopic:
        try:
            log.create_topic(name, partitions, retention_s=FOREVER if is_forever else None)
        except TopicExists:
            return  # another process was faster


def ensure_places(log: Log) -> None:
    ensure_topic(log, TOPIC, 1, is_forever=True)
