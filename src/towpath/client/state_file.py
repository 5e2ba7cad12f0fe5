"""A client's memory: one JSON file that is there whole or not at all, and is used by one process at a time."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any, Self

from towpath.errors import BadStateFile

VERSION = 1


class StateFile:
    """Used as a context manager: in the block it is this process's alone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None

    def __enter__(self) -> Self:
        beside = self._beside("lock")
        try:
            self._lock = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.__exit__()
            raise BadStateFile(f"{self.path} is in use: another towpath works with it on this machine") from None
        except OSError as error:
            raise BadStateFile(f"{beside} cannot be made: {error.strerror or error}") from error
        return self

    def __exit__(self, *ignored: object) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def read(self) -> dict[str, Any] | None:
        """What is remembered; None: nothing yet."""
        return read_state(self.path)

    def write(self, state: dict[str, Any]) -> None:
        """Remember this, through a crash of the machine too."""
        hidden = self._beside("new")
        try:
            with open(hidden, "w", encoding="utf-8") as file:
                json.dump({"version": VERSION, **state}, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            os.replace(hidden, self.path)
            sync_directory(self.path.parent)
        except OSError as error:
            raise BadStateFile(f"{self.path} cannot be written: {error.strerror or error}") from error

    def remove(self) -> None:
        """There is nothing to go on with."""
        self.path.unlink(missing_ok=True)

    def _beside(self, kind: str) -> Path:
        return self.path.with_name(f".{self.path.name}.{kind}")


def read_state(path: Path) -> dict[str, Any] | None:
    """The state in a file, without using it."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise BadStateFile(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not isinstance(found, dict) or found.get("version") != VERSION:
        raise BadStateFile(f"{path} is no state of a client, or one of another version of Towpath")
    return found


def sync_directory(path: Path) -> None:
    """What was renamed or made in it is there after a power cut."""
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
