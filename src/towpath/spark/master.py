"""Where Spark runs, as its master URL says it."""

from __future__ import annotations

import ipaddress
import socket

from towpath.errors import SparkFailed

STANDALONE = "spark://"
REACH_TIMEOUT_S = 5.0

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


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
