"""The secrets of the Spark clusters that this user has running on this machine.

A standalone cluster runs whatever it is sent, as the user that started it. One of `towpath stack` therefore asks for a
secret, and keeps it in a file that only that user can read, named for the address: a session of the same user needs
nothing but the master's address, and no secret stands in a settings file, in an output or on a command line.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from pathlib import Path

from towpath.spark.artifacts import cache_directory

ENABLED = "spark.authenticate"
SECRET = "spark.authenticate.secret"  # noqa: S105, the name of a property


def properties_for(master: str) -> dict[str, str]:
    """What a session on this master has to be started with; nothing when the cluster is not one of ours."""
    try:
        secret = _place(master).read_text(encoding="ascii")
    except OSError:
        return {}
    return {ENABLED: "true", SECRET: secret} if secret else {}


def keep(master: str, secret: str) -> None:
    """Let this user's sessions find the secret of a cluster; written aside, for somebody may just be reading."""
    place = _place(master)
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    number, aside = tempfile.mkstemp(dir=place.parent)  # readable for us only
    with open(number, "w", encoding="ascii") as file:
        file.write(secret)
    os.replace(aside, place)


def forget(master: str) -> None:
    """The cluster has ended."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        _place(master).unlink()


def _place(master: str) -> Path:
    return cache_directory() / "spark-secrets" / re.sub(r"[^\w.-]", "_", master)[:200]
