"""What a container is made from: a launch, and what all containers of a launcher have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from towpath.errors import CannotLaunch
from towpath.supervision.launchers.launch_spec import MB, LaunchSpec, Limits, LogLimits
from towpath.supervision.launchers.limits import CPU_GRACE_S

CLUSTER, DUTY, LAUNCH, LAUNCH_ID = "towpath.cluster", "towpath.duty", "towpath.launch", "towpath.launch-id"


@dataclass(frozen=True, slots=True)
class DockerOptions:
    """What all containers of a launcher have in common."""

    cluster: str = "towpath"
    """Tells the containers of several Towpaths apart that share an engine."""
    image: str = ""
    """Of launches that name none."""
    network: str = ""
    """A network, or `host`; empty: the engine's own choice."""
    mounts: tuple[str, ...] = ()
    """As `/on/the/host:/in/the/container`, or `volume:/in/the/container`; with `:ro` only to be read."""
    user: str = ""
    """As `uid:gid`; empty: the image's own."""


def container_config(spec: LaunchSpec, options: DockerOptions) -> dict[str, Any]:
    """As the engine takes it. Raises `CannotLaunch` when there is no image."""
    image = spec.image or options.image
    if not image:
        raise CannotLaunch(f"{spec.duty} cannot be started: say which image its container is made from")
    config: dict[str, Any] = {
        "Image": image,
        # All of the command: what the image would put before it, or behind it, is left out.
        "Entrypoint": list(spec.command),
        "Cmd": [],
        "Env": [f"{name}={value}" for name, value in spec.full_environment.items()],
        "Labels": {**spec.labels, **_labels(spec, options)},
        "User": options.user,
        "Tty": False,
        "OpenStdin": False,
        "StopSignal": "SIGTERM",
        "HostConfig": _host_config(spec, options),
    }
    if spec.directory is not None:
        config["WorkingDir"] = str(spec.directory)
    return config


def _labels(spec: LaunchSpec, options: DockerOptions) -> dict[str, str]:
    return {CLUSTER: options.cluster, DUTY: spec.duty, LAUNCH: str(spec.launch), LAUNCH_ID: spec.launch_id}


def _host_config(spec: LaunchSpec, options: DockerOptions) -> dict[str, Any]:
    config: dict[str, Any] = {
        "RestartPolicy": {"Name": "no"},
        "AutoRemove": False,
        "Init": True,  # as the first process of a container a program would not hear SIGTERM unless it asks for it
        "LogConfig": _log_config(spec.log),
        **_limits(spec.limits),
    }
    if options.mounts:
        config["Binds"] = list(options.mounts)
    if options.network:
        config["NetworkMode"] = options.network
    return config


def _log_config(log: LogLimits) -> dict[str, Any]:
    return {"Type": "json-file", "Config": {"max-size": f"{log.file_mb}m", "max-file": str(log.files)}}


def _limits(limits: Limits) -> dict[str, Any]:
    config: dict[str, Any] = {}
    if limits.memory_mb is not None:
        config["Memory"] = config["MemorySwap"] = limits.memory_mb * MB
    if limits.processes is not None:
        config["PidsLimit"] = limits.processes
    ulimits = []
    if limits.cpu_s is not None:
        ulimits.append({"Name": "cpu", "Soft": limits.cpu_s, "Hard": limits.cpu_s + CPU_GRACE_S})
    if limits.open_files is not None:
        ulimits.append({"Name": "nofile", "Soft": limits.open_files, "Hard": limits.open_files})
    if ulimits:
        config["Ulimits"] = ulimits
    return config
