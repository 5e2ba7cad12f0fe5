"""All checks, in the order in which things need each other."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from towpath import settings as settings_module
from towpath.doctor import machine, store
from towpath.doctor.check import Check, Purpose, missing, ok
from towpath.errors import BadSettings


def examine(flags: dict[str, Any], config: Path | None, purposes: Collection[Purpose]) -> list[Check]:
    """Look at everything. What a purpose needs is missing when it is not there; otherwise that is a warning."""
    checks = [machine.python(), machine.sqlite()]
    java_home = ""
    try:
        settings = settings_module.load(flags, config)
    except (BadSettings, OSError) as error:
        checks.append(missing("settings", str(error), "mend it, or leave it away"))
    else:
        checks.append(ok("settings", "readable"))
        checks += store.examine(settings.database)
        java_home = settings.spark.java_home
    return [
        *checks,
        machine.java(is_needed=Purpose.FLOWS in purposes, java_home=java_home),
        machine.postgres(is_needed=Purpose.TEST in purposes),
        machine.chromium(),
    ]
