"""On which servers the demo plays: those of the settings, or those that `towpath stack` has started here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from towpath.settings import LogSettings, Settings
    from towpath.stack.server_name import ServerName

KAFKA_PREFIX = "kafka://"

OnKafka = Annotated[
    bool, typer.Option("--kafka", help="Topics in Kafka: the one of the settings, else that of `towpath stack`.")
]
OnElasticsearch = Annotated[
    bool,
    typer.Option("--elasticsearch", help="Indices of Elasticsearch in place of a table: that of `towpath stack`."),
]
ElasticsearchUrl = Annotated[
    str | None, typer.Option("--elasticsearch-url", metavar="URL", help="The same, on another Elasticsearch.")
]


@dataclass(frozen=True, slots=True)
class DemoServers:
    """None of a kind: the demo does without."""

    log: LogSettings | None = None
    is_log_of_stack: bool = False
    index_url: str | None = None

    @property
    def are_there(self) -> bool:
        return self.log is not None or self.index_url is not None


def find_servers(settings: Settings, kafka: bool, elasticsearch: bool, url: str | None) -> DemoServers:
    """The servers that were asked for; an error that says how to start them when one does not run."""
    from towpath.settings import LogSettings
    from towpath.stack.server_name import ServerName

    has_own_log = settings.log.url.startswith(KAFKA_PREFIX)
    wanted = []
    if kafka and not has_own_log:
        wanted.append(ServerName.KAFKA)
    if elasticsearch and url is None:
        wanted.append(ServerName.ELASTICSEARCH)
    running = _running(settings, wanted)
    log = None
    if kafka:
        log = settings.log if has_own_log else LogSettings(url=running[ServerName.KAFKA])
    return DemoServers(log, kafka and not has_own_log, url or running.get(ServerName.ELASTICSEARCH))


def _running(settings: Settings, wanted: list[ServerName]) -> dict[ServerName, str]:
    """The addresses of servers of the stack."""
    from towpath.errors import ServerFailed
    from towpath.stack.server_name import ServerState
    from towpath.stack.stack import Stack

    stack = Stack(Path(settings.stack.directory), settings.spark.java_home)
    found = [stack.status(name) for name in wanted]
    if missing := [it for it in found if it.state is not ServerState.RUNNING]:
        names = " ".join(it.name for it in missing)
        states = ", ".join(f"{it.name} ({it.state})" for it in missing)
        raise ServerFailed(f"the demo needs servers that do not run here: {states}; type: towpath stack up {names}")
    return {it.name: it.url for it in found}
