"""Whether the API shows a thing as the command line does: the two spell the zone of a time in their own way."""

from __future__ import annotations

import json
from typing import Any

from tests.support.cli import CommandLine


def printed(command: CommandLine, *words: object) -> Any:
    """What a command prints for programs, as the API would write it."""
    return json.loads(command.ok(*words, "--json").out.replace('+00:00"', 'Z"'))
