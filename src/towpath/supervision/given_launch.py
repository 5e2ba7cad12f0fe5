"""The launch that a process was started for, as its environment says it."""

from __future__ import annotations

import os
from dataclasses import dataclass

from towpath.errors import BadSettings
from towpath.supervision.launchers.launch_spec import LAUNCH_VARIABLE

# What a process starts that has shown its launch belongs to that launch, and has none to show.
SHOWN_VARIABLE = "TOWPATH_LAUNCH_SHOWN"


@dataclass(frozen=True, slots=True)
class GivenLaunch:
    """Which start of which duty this process is."""

    duty: str
    launch: int
    launch_id: str

    @classmethod
    def parse(cls, sign: str) -> GivenLaunch:
        duty, _, rest = sign.partition(":")
        number, _, launch_id = rest.partition(":")
        if not duty or not launch_id or not number.isdecimal():
            raise BadSettings(f"{LAUNCH_VARIABLE}={sign!r} is not duty:number:launch id; only launchers set it")
        return cls(duty, int(number), launch_id)


def given_launch() -> GivenLaunch | None:
    """This process's launch; none when it was not started for a duty."""
    sign = os.environ.get(LAUNCH_VARIABLE, "")
    given = GivenLaunch.parse(sign) if sign else None
    is_shown = given is not None and os.environ.get(SHOWN_VARIABLE) == given.launch_id
    return None if is_shown else given


def mark_shown(given: GivenLaunch | None) -> None:
    """Let children see that the launch is shown; none: it is not any more."""
    if given is None:
        os.environ.pop(SHOWN_VARIABLE, None)
    else:
        os.environ[SHOWN_VARIABLE] = given.launch_id
