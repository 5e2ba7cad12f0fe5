"""Names of groups, and the groups that producers keep for themselves."""

from __future__ import annotations

from towpath.errors import BadName
from towpath.log.topic import check_group

OWN = "__"
COPY = f"{OWN}copy."


def check_user_group(name: str) -> str:
    check_group(name)
    if name.startswith(OWN) and not name.startswith(COPY):
        raise BadName(f"{name!r}: groups that begin with {OWN} are the log's own")
    return name


def sequence_group(producer: str) -> str:
    """Its position in partition 0 of a topic is how many records without a key the producer has appended there."""
    return f"{OWN}producer.{producer}"


def copy_group(source_id: str, target_id: str) -> str:
    """Its positions are in the topic copied to, but they are offsets of the topic copied from: no reader's."""
    return f"{COPY}{source_id}.{target_id}"
