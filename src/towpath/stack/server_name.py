"""Which servers there are."""

from __future__ import annotations

from enum import StrEnum


class ServerName(StrEnum):
    """A server that Towpath can start on this machine."""

    KAFKA = "kafka"
    ELASTICSEARCH = "elasticsearch"
    POSTGRES = "postgres"
    SPARK = "spark"


class ServerState(StrEnum):
    """How a server is."""

    RUNNING = "running"  # it answers
    STARTING = "starting"  # its process runs and does not answer: not yet, or not any more
    STOPPED = "stopped"  # its data are there
    ABSENT = "absent"  # it was never started, or was reset
