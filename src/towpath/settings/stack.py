"""Settings of local servers."""

from __future__ import annotations

from pydantic import Field

from towpath.settings.part import Part


class StackSettings(Part):
    """Servers on this machine for trying things out: `towpath stack`."""

    directory: str = Field(".towpath/stack", description="Where the servers keep data, logs and ports.")
