"""Options of the commands that talk to a gateway. The key is none of them: it would stand in the list of processes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.failures import UsageError
from towpath.cli.topic_times import NEVER, parse_age_s

if TYPE_CHECKING:
    from towpath.client import Client
    from towpath.client.patience import Waiting

SERVER_VARIABLE = "TOWPATH_SERVER"


@dataclass(frozen=True)
class GatewayOptions:
    """Where the gateway is, who asks, and for how long; see `spread`."""

    server: Annotated[
        str | None,
        typer.Option(metavar="URL", envvar=SERVER_VARIABLE, help="The gateway, such as https://towpath.example.org."),
    ] = None
    key_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A file with the API key; otherwise the variable TOWPATH_KEY has it."),
    ] = None
    give_up_after: Annotated[
        str, typer.Option(metavar="AGE", help="End when nothing has worked for so long, such as 90s, 15m or 12h.")
    ] = NEVER
    ca_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Certificates (PEM) by which the gateway is recognised.")
    ] = None
    plain_http: Annotated[
        bool, typer.Option("--plain-http", help="Send the key to another machine without encryption.")
    ] = False

    def client(self, server: str | None = None, on_wait: Waiting | None = None) -> Client:
        """`server`: where it was the last time."""
        from towpath.client import Client
        from towpath.client.key import find_key
        from towpath.client.patience import say_nothing

        url = self.server or server
        if not url:
            raise UsageError(f"which gateway? Say --server URL, or set the variable {SERVER_VARIABLE}")
        limit = parse_age_s(self.give_up_after, "--give-up-after")
        return Client(
            url,
            find_key(self.key_file),
            ca_file=self.ca_file,
            plain_http=self.plain_http,
            give_up_after_s=None if limit == NEVER else float(limit),
            on_wait=on_wait or say_nothing,
        )
