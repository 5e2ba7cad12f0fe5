"""Settings of supervision, and of what `towpath up` runs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from towpath.settings.base import Age, Seconds, SettingsSection

DeskPartKind = Literal["intake", "relay", "replayer", "jobs", "notices", "janitor"]
DutyKind = Literal["flow", "actors", "desk", DeskPartKind, "api", "gateway", "console", "command"]
UpName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,59}$")]


class SupervisionSettings(SettingsSection):
    """Peers that keep processes running: `towpath up`."""

    cluster: str = Field(
        "towpath",
        description="Name of all that belongs together; peers of another cluster are not heard.",
        pattern=r"^[a-zA-Z0-9._-]{1,40}$",
    )
    host: str = Field(
        "",
        description="What this machine is called in `hosts` and in `up.NAME.host`; empty: its host name.",
        pattern=r"^[a-zA-Z0-9._-]{0,80}$",
    )
    hosts: list[Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]{1,80}$")]] = Field(
        [], description="All machines, the same list on each; peers are dealt out to them in turn. Empty: this one."
    )
    peers: int = Field(3, ge=1, le=31, description="How many peers there are on all machines together.")
    listen: str = Field(
        "127.0.0.1",
        description="The interface on which peers and processes of this machine are asked for signs of life (UDP).",
        pattern=r"^[a-zA-Z0-9.:_-]+$",
    )
    address: str = Field(
        "",
        description="Under which other machines reach that; empty: the same. Needed when `listen` is `0.0.0.0`.",
        pattern=r"^[a-zA-Z0-9.:_-]*$",
    )
    port: int = Field(
        0,
        ge=0,
        le=65000,
        description="Peer number n listens on this port + n; 0: on any free port, which the others read in the "
        "database. Other processes always listen on any free port.",
    )
    secret: str = Field("", repr=False, description="With which what peers say is signed; empty: that in the file.")
    secret_file: str = Field(
        "",
        description="File with that secret, the same on all machines, readable by its owner only. Empty: a file beside "
        "the SQLite database, or `.towpath/secret`; it is made when it is missing.",
    )
    directory: str = Field(
        ".towpath/supervision",
        description="What is kept of processes that were started: logs, and how they ended.",
    )
    docker_socket: str = Field("/var/run/docker.sock", description="Where the Docker Engine listens on this machine.")
    docker_network: str = Field(
        "", description="The network of containers, or `host`; empty: the engine's own choice.", pattern=r"^[\w.:-]*$"
    )
    docker_mounts: list[Annotated[str, Field(pattern=r"^[^:]+:/[^:]*(:[a-zA-Z,]+)?$")]] = Field(
        [],
        description="What containers see of this machine, as `/on/this/machine:/in/the/container` or "
        "`volume:/in/the/container`; with `:ro` behind it only to be read.",
    )
    docker_user: str = Field(
        "", description="As whom containers run, as `uid:gid`; empty: as their image says.", pattern=r"^[\w.:-]*$"
    )
    election_s: Seconds = Field(1.0, description="A peer whose coordinator is silent for this long elects another.")
    lease_s: Seconds = Field(
        2.0, description="A coordinator that has not renewed its term for this long does nothing any more."
    )
    ping_s: Seconds = Field(1.0, description="How often a process is asked for a sign of life.")
    silent_s: Seconds = Field(
        2.5, description="A process that neither beats nor answers for this long is ended by force and started again."
    )
    start_s: Seconds = Field(
        60.0, description="A process that has not shown itself this long after its start is ended and started again."
    )
    settle_s: Seconds = Field(
        3.0, description="A process that is not Towpath's, and so cannot say it, counts as ready after this time."
    )
    retry_least_s: Seconds = Field(0.5, description="First wait before a process that has died is started again.")
    retry_most_s: Seconds = Field(60.0, description="Longest such wait; each death before it was ready doubles it.")
    early_deaths: int = Field(
        5, ge=1, le=1000, description="Deaths in a row before it was ready after which it is not started again."
    )
    retention_s: Age = Field(90 * 86400.0, description="Age at which records of deaths are deleted, or `never`.")

    @model_validator(mode="after")
    def _times_fit(self) -> SupervisionSettings:
        if self.silent_s < 2 * self.ping_s:
            raise ValueError(
                f"silent_s ({self.silent_s:g}) must be at least twice ping_s ({self.ping_s:g}), "
                "or a lost packet would kill a living process"
            )
        if self.retry_most_s < self.retry_least_s:
            raise ValueError(f"retry_most_s ({self.retry_most_s:g}) is less than retry_least_s")
        if self.listen in ("0.0.0.0", "::") and not self.address:  # noqa: S104 - it is refused
            raise ValueError(f"listen = {self.listen} needs address: what others reach this machine under")
        if len(set(self.hosts)) < len(self.hosts):
            raise ValueError("hosts names one machine twice")
        return self


class UpSettings(SettingsSection):
    """One thing that `towpath up` keeps running."""

    kind: DutyKind = Field(
        description="`flow`, `actors`, `desk` (or one of its parts: `intake`, `relay`, `replayer`, `jobs`, `notices`, "
        "`janitor`), `api`, `gateway`, `console`, or `command` for any program."
    )
    target: str = Field("", description="Of a flow: its file or module and name, as `towpath run` takes it.")
    command: list[str] = Field([], description="Of a command: the program and its arguments.")
    arguments: list[str] = Field([], description="Further arguments, such as modules of actors, or options.")
    copies: int = Field(1, ge=1, le=1000, description="How many processes of it; of a flow one.")
    host: str = Field("", description="The machine that it runs on; empty: the first one.", pattern=r"^[\w.-]{0,80}$")
    launcher: Literal["subprocess", "docker"] = Field("subprocess", description="How it is started.")
    image: str = Field("", description="Docker only: the image.")
    directory: str = Field("", description="Where it works; empty: where the settings file is.")
    environment: dict[str, str] = Field({}, repr=False, description="Variables that it gets besides those of its peer.")
    grace_s: Seconds | None = Field(None, description="How long it may take to stop; else `process.grace_s` and a bit.")
    memory_mb: int | None = Field(None, ge=1, description="Most memory that it may use.")
    cpu_s: int | None = Field(None, ge=1, description="Most time of computing.")
    open_files: int | None = Field(None, ge=1, description="Most files that it may have open.")
    processes: int | None = Field(None, ge=1, description="Most processes that it may be.")

    @model_validator(mode="after")
    def _kind_fits(self) -> UpSettings:
        if (self.kind == "flow") != bool(self.target):
            raise ValueError('a flow, and nothing else, needs target, as in target = "page_views:flow"')
        if (self.kind == "command") != bool(self.command):
            raise ValueError('a command, and nothing else, needs command, as in command = ["sleep", "60"]')
        if self.kind == "flow" and self.copies > 1:
            raise ValueError("one process at a time runs a flow: leave copies away")
        if (self.launcher == "docker") != bool(self.image):
            raise ValueError("launcher docker, and nothing else, needs an image")
        return self
