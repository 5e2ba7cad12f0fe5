"""The names and states of local servers, and the record that a stack keeps of each."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Self

from towpath.errors import ServerFailed

FILE_NAME = "server.json"


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


@dataclass(frozen=True, slots=True)
class ServerRecord:
    """The port of a server, which stays the same from start to start, and for Spark the number of workers."""

    port: int
    workers: int = 1

    @classmethod
    def read(cls, home: Path) -> Self | None:
        """What is written in the server's directory; none when it was never started."""
        path = home / FILE_NAME
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            record = cls(**values)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            raise _broken(path, str(error)) from error
        if not all(type(value) is int for value in values.values()):
            raise _broken(path, "its values are not numbers")
        return record

    @staticmethod
    def is_there(home: Path) -> bool:
        """Whether the server was started at some time, whatever the record says."""
        return os.path.lexists(home / FILE_NAME)

    def write(self, home: Path) -> None:
        """Written aside and renamed: a full disk or a kill leaves the old one."""
        home.mkdir(parents=True, exist_ok=True)
        aside = home / f".{FILE_NAME}.new"
        aside.write_text(json.dumps(asdict(self)), encoding="utf-8")
        os.replace(aside, home / FILE_NAME)


def _broken(path: Path, why: str) -> ServerFailed:
    return ServerFailed(
        f"{path} cannot be understood ({why}); to keep the server's data, delete this file and start the server again; "
        f"to delete them, type: towpath stack reset {path.parent.name}"
    )
