"""What one look at the machine found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Health(StrEnum):
    """How a thing is."""

    OK = "ok"
    WARNING = "warning"  # it works without, or not for long
    MISSING = "missing"  # it does not work without


class Purpose(StrEnum):
    """What the machine is to be used for, beside running the queue."""

    TEST = "test"
    DEMO = "demo"
    FLOWS = "flows"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing: how it is, what was found, what to do about it and, if that is all, the package that holds it."""

    name: str
    health: Health
    found: str
    remedy: str = ""
    package: str = ""


def ok(name: str, found: str) -> Check:
    return Check(name, Health.OK, found)


def warning(name: str, found: str, remedy: str) -> Check:
    return Check(name, Health.WARNING, found, remedy)


def missing(name: str, found: str, remedy: str) -> Check:
    return Check(name, Health.MISSING, found, remedy)


def absent(name: str, what_for: str, package: str, *, is_needed: bool) -> Check:
    """Something that a package of the system would bring."""
    health = Health.MISSING if is_needed else Health.WARNING
    return Check(name, health, f"not found; {what_for}", f"apt-get install {package}", package)
