"""From the settings to what has to run: a duty for each peer, and for each copy of what `[up.NAME]` says."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from towpath.errors import BadSettings
from towpath.settings import Settings, SupervisionSettings, UpSettings
from towpath.supervision.duties.model import DutySpec, NewDuty
from towpath.supervision.peers.socket import all_hosts, host_of_peer, peer_name

PEER_KIND = "peer"
PEER_ORDER, OTHERS_ORDER = 0, 10  # peers stop last
BEYOND_GRACE_S = 5.0  # a process leaves by itself within its grace; by force only after that
LIMITS = ("memory_mb", "cpu_s", "open_files", "processes")


@dataclass(frozen=True, slots=True)
class Installation:
    """How the commands of this installation are called: with which settings file and database, from where."""

    directory: Path
    options: tuple[str, ...] = ()  # global options, such as --config
    environment: Mapping[str, str] = field(default_factory=dict)

    def command(self, *words: str, is_contained: bool = False) -> tuple[str, ...]:
        """In a container the image has its own Towpath, and its own settings file if any."""
        here = (sys.executable, "-m", "towpath", *self.options)
        return (*(("towpath",) if is_contained else here), *words)


def duties_wanted(settings: Settings, place: Installation) -> list[NewDuty]:
    """All that has to run on all hosts; raises `BadSettings` when two have one name or a host is unknown."""
    wanted = [*_peers(settings, place), *_named(settings, place)]
    names = [each.name for each in wanted]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadSettings(f"two things that have to run would be named {twice[0]!r}: choose another name in [up]")
    return wanted


def _peers(settings: Settings, place: Installation) -> list[NewDuty]:
    supervision, grace_s = settings.supervision, settings.process.grace_s + BEYOND_GRACE_S
    return [
        NewDuty(
            peer_name(number),
            PEER_KIND,
            host_of_peer(supervision, number),
            DutySpec(
                place.command("peer", "run", "--number", str(number)),
                environment=place.environment,
                directory=str(place.directory),
                grace_s=grace_s,
                order=PEER_ORDER,
            ),
        )
        for number in range(1, supervision.peers + 1)
    ]


def _named(settings: Settings, place: Installation) -> list[NewDuty]:
    found = []
    for name, up in settings.up.items():
        host = _host(settings.supervision, name, up)
        spec = _spec(settings, up, place)
        names = [name] if up.copies == 1 else [f"{name}-{copy}" for copy in range(1, up.copies + 1)]
        found += [NewDuty(each, up.kind, host, spec) for each in names]
    return found


def _host(supervision: SupervisionSettings, name: str, up: UpSettings) -> str:
    hosts = all_hosts(supervision)
    if up.host and up.host not in hosts:
        raise BadSettings(f"up.{name}.host {up.host!r} is not in supervision.hosts: {', '.join(hosts)}")
    return up.host or hosts[0]


def _spec(settings: Settings, up: UpSettings, place: Installation) -> DutySpec:
    limits = {name: value for name in LIMITS if (value := getattr(up, name)) is not None}
    return DutySpec(
        command=_command(up, place),
        environment={**place.environment, **up.environment},
        directory=str((place.directory / up.directory).resolve()) if up.launcher == "subprocess" else up.directory,
        limits=limits,
        launcher=up.launcher,
        image=up.image,
        reports=up.kind != "command",
        grace_s=up.grace_s or settings.process.grace_s + BEYOND_GRACE_S,
        order=OTHERS_ORDER,
    )


def _command(up: UpSettings, place: Installation) -> tuple[str, ...]:
    if up.kind == "command":
        return (*up.command, *up.arguments)
    return place.command(*_words(up), *up.arguments, is_contained=up.launcher == "docker")


def _words(up: UpSettings) -> tuple[str, ...]:
    match up.kind:
        case "flow":
            return ("run", up.target)
        case "actors":
            return ("actor", "run")
        case "desk" | "api" | "gateway":
            return (up.kind, "run")
        case "console":
            return ("console",)
    return ("desk", "run", "--only", up.kind)
