"""Files with which the system of a machine keeps `towpath up` running: a systemd unit, a Compose file.

What is kept running is `towpath up --foreground`, which starts the peers of this machine and stays; the peers do the
rest. So there is one place that knows what has to run, the settings, and none of it is repeated here.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

BEYOND_GRACE_S = 15  # duties stop one kind after the other, peers last
KINDS_THAT_STOP = 2  # everything else, then the peers
HEALTH_EVERY_S = 10
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Deployment:
    """What the files have to say."""

    cluster: str
    command: tuple[str, ...]  # towpath with its global options
    directory: Path  # of the settings file
    grace_s: float

    @property
    def stop_s(self) -> int:
        """How long it may take until all of it has stopped by itself."""
        return math.ceil(self.grace_s * KINDS_THAT_STOP + BEYOND_GRACE_S)

    def up(self) -> tuple[str, ...]:
        return (*self.command, "up", "--foreground")

    def check(self) -> tuple[str, ...]:
        return (*self.command, "status", "--check")


def systemd_unit(deployment: Deployment, user: str) -> str:
    """A service of the system, under a user of its own."""
    return "\n".join(_unit_lines(deployment, user)) + "\n"


def _unit_lines(deployment: Deployment, user: str) -> Iterator[str]:
    yield f"# Made by `towpath deploy systemd`. To use it: /etc/systemd/system/{_unit_name(deployment.cluster)}"
    yield "[Unit]"
    yield f"Description={_specifier(f'Towpath {deployment.cluster}')}"
    yield "After=network-online.target"
    yield "Wants=network-online.target"
    yield "# It never gives up: what it supervises has a guard of its own against starting in a circle."
    yield "StartLimitIntervalSec=0"
    yield ""
    yield "[Service]"
    yield "Type=exec"
    yield f"User={_specifier(user)}"
    yield f"WorkingDirectory={_specifier(str(deployment.directory))}"
    yield f"ExecStart={' '.join(map(_quoted, deployment.up()))}"
    yield "# Only `towpath up` is told to stop, and stops the others in order. Should it die, the next one finds them."
    yield "KillMode=process"
    yield f"TimeoutStopSec={deployment.stop_s}"
    yield "Restart=always"
    yield "RestartSec=2"
    yield "UMask=0077"
    yield "NoNewPrivileges=yes"
    yield "ProtectSystem=full"
    yield "ProtectKernelTunables=yes"
    yield "ProtectControlGroups=yes"
    yield "RestrictSUIDSGID=yes"
    yield ""
    yield "[Install]"
    yield "WantedBy=multi-user.target"


def _unit_name(cluster: str) -> str:
    return "towpath.service" if cluster == "towpath" else f"towpath-{cluster}.service"


def _specifier(text: str) -> str:
    """Percent signs mean something to systemd."""
    return _CONTROL.sub(" ", text).replace("%", "%%")


def _quoted(word: str) -> str:
    """One argument of a command line of systemd."""
    plain = _specifier(word).replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return plain if plain and not re.search(r"[\s'\";]", plain) else f'"{plain}"'


def compose_file(deployment: Deployment, image: str) -> str:
    """One container with the peers of this machine and all that they start as processes."""
    service = {
        "image": image,
        "command": list(deployment.up()),
        "working_dir": str(deployment.directory),
        "restart": "unless-stopped",
        "init": True,  # what is left of processes that died is cleared away
        "stop_grace_period": f"{deployment.stop_s}s",
        "security_opt": ["no-new-privileges:true"],
        "volumes": [f"{deployment.directory}:{deployment.directory}"],
        "healthcheck": {
            "test": ["CMD", *deployment.check()],
            "interval": f"{HEALTH_EVERY_S}s",
            "timeout": f"{HEALTH_EVERY_S}s",
            "retries": 3,
            "start_period": "90s",
        },
    }
    lines = [
        "# Made by `towpath deploy compose`. The image needs `towpath` on its path and, for flows, Java 17.",
        f"name: {json.dumps(_project(deployment.cluster))}",
        "services:",
        "  towpath:",
        *_yaml(service, 4),
    ]
    return "\n".join(lines) + "\n"


def _project(cluster: str) -> str:
    """Compose allows small letters, digits, - and _ in it."""
    return re.sub(r"[^a-z0-9_-]", "-", cluster.lower()).lstrip("-_") or "towpath"


def _yaml(value: dict[str, object], indent: int) -> Iterator[str]:
    """Every scalar as JSON, which YAML reads the same way; a dollar sign would be a variable of Compose."""
    for name, each in value.items():
        if isinstance(each, dict):
            yield f"{' ' * indent}{name}:"
            yield from _yaml(each, indent + 2)
        else:
            yield f"{' ' * indent}{name}: {json.dumps(_plain(each), ensure_ascii=False)}"


def _plain(value: object) -> object:
    if isinstance(value, str):
        return value.replace("$", "$$")
    if isinstance(value, Sequence):
        return [_plain(each) for each in value]
    return value
