"""Where Spark runs, as its master URL says it, and the secrets of this user's own clusters.

A standalone cluster runs whatever it is sent, as the user that started it. One of `towpath stack` therefore asks for a
secret, and keeps it in a file that only that user can read, named for the address: a session of the same user needs
nothing but the master's address, and no secret stands in a settings file, in an output or on a command line.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import socket
import tempfile
from pathlib import Path

from towpath.errors import SparkFailed
from towpath.spark.artifacts import cache_directory

STANDALONE = "spark://"
REACH_TIMEOUT_S = 5.0
ENABLED = "spark.authenticate"
SECRET = "spark.authenticate.secret"  # noqa: S105, the name of a property

Address = tuple[str, int]


def is_local(master: str) -> bool:
    """Whether Spark runs inside the driver."""
    return master.startswith("local")


def is_on_this_host(master: str) -> bool:
    """Whether all executors are certainly on the driver's host, and so see its files."""
    if is_local(master):
        return True
    return master.startswith(STANDALONE) and all(_is_loopback(host) for host, _ in addresses(master))


def addresses(master: str) -> list[Address]:
    """Host and port of each master of a standalone cluster: `spark://one:7077,two:7077`."""
    found = []
    for part in master.removeprefix(STANDALONE).split(","):
        host, _, port = part.rpartition(":")
        found.append((host.strip("[]"), int(port)) if port.isdigit() and host else (part, 7077))
    return found


def check_reachable(master: str) -> None:
    """Raise `SparkFailed` when no master of a standalone cluster answers: Spark itself tries for a minute."""
    if not master.startswith(STANDALONE):
        return
    problems = []
    for address in addresses(master):
        try:
            socket.create_connection(address, REACH_TIMEOUT_S).close()
        except OSError as error:
            problems.append(str(error.strerror or error))
        else:
            return
    raise SparkFailed(f"no Spark master answers at {master} ({'; '.join(problems)}); start it, or mend spark.master")


def properties_for(master: str) -> dict[str, str]:
    """The properties that a session on this master needs; none when the cluster is not one of ours."""
    try:
        secret = _secret_file(master).read_text(encoding="ascii")
    except OSError:
        return {}
    return {ENABLED: "true", SECRET: secret} if secret else {}


def keep(master: str, secret: str) -> None:
    """Let this user's sessions find the secret of a cluster. Written aside first: a session may be reading it."""
    place = _secret_file(master)
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    number, aside = tempfile.mkstemp(dir=place.parent)  # readable for us only
    with open(number, "w", encoding="ascii") as file:
        file.write(secret)
    os.replace(aside, place)


def forget(master: str) -> None:
    """Forget the secret of a cluster that has ended."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        _secret_file(master).unlink()


def _secret_file(master: str) -> Path:
    return cache_directory() / "spark-secrets" / re.sub(r"[^\w.-]", "_", master)[:200]


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
