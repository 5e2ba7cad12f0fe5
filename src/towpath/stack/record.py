"""What a stack remembers of a server that is stopped."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from towpath.errors import ServerFailed

FILE_NAME = "server.json"


@dataclass(frozen=True, slots=True)
class Record:
    """The port of a server, which stays the same from start to start, and for Spark the number of workers."""

    port: int
    workers: int = 1

    @classmethod
    def read(cls, home: Path) -> Self | None:
        """What is written in the server's directory; none when it was never started."""
        path = home / FILE_NAME
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            raise ServerFailed(
                f"{path} cannot be understood ({error}); delete it, then start the server again"
            ) from error

    def write(self, home: Path) -> None:
        """Written aside and renamed: a full disk or a kill leaves the old one."""
        home.mkdir(parents=True, exist_ok=True)
        aside = home / f".{FILE_NAME}.new"
        aside.write_text(json.dumps(asdict(self)), encoding="utf-8")
        os.replace(aside, home / FILE_NAME)
