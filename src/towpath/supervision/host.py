"""What this machine is called, and where it is reached."""

from __future__ import annotations

import socket

from towpath.settings import SupervisionSettings


def this_host(settings: SupervisionSettings) -> str:
    """Its label."""
    return settings.host or socket.gethostname()


def all_hosts(settings: SupervisionSettings) -> list[str]:
    """The labels of all machines; the first one has what is said to run on no other."""
    return settings.hosts or [this_host(settings)]


def host_of_peer(settings: SupervisionSettings, number: int) -> str:
    """On which machine a peer runs; they are dealt out in turn."""
    hosts = all_hosts(settings)
    return hosts[(number - 1) % len(hosts)]


def peer_name(number: int) -> str:
    """The duty of a peer."""
    return f"peer-{number}"


def written_address(host: str, port: int) -> str:
    """As it stands in a process row."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def read_address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)
