"""From a duty and its launch to what a launcher starts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from towpath import crash
from towpath.supervision.duty import Duty
from towpath.supervision.given_launch import SHOWN_VARIABLE
from towpath.supervision.launchers.launch_spec import LAUNCH_VARIABLE, LaunchSpec, Limits

# A peer's own launch, and where it is to die in a test, are not its children's.
NOT_INHERITED = frozenset({LAUNCH_VARIABLE, SHOWN_VARIABLE, crash.VARIABLE})


def launch_spec(duty: Duty) -> LaunchSpec:
    """What to start for the present launch of a duty."""
    spec = duty.spec
    if duty.launch_id is None:
        raise ValueError(f"{duty.name} has no launch")
    return LaunchSpec(
        duty=duty.name,
        launch=duty.launch,
        launch_id=duty.launch_id,
        command=spec.command,
        environment=_environment(spec.environment, is_contained=spec.launcher == "docker"),
        directory=Path(spec.directory) if spec.directory else None,
        limits=Limits(**spec.limits),
        image=spec.image,
        labels={"towpath.kind": duty.kind, "towpath.host": duty.host},
    )


def _environment(own: Mapping[str, str], *, is_contained: bool) -> dict[str, str]:
    """What the peer has, since it was started with the same settings; a container has only what is said of it."""
    if is_contained:
        return dict(own)
    inherited = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
    return {**inherited, "PYTHONUNBUFFERED": "1", **own}
