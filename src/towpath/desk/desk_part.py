"""What the desk does by itself, part by part: a process may run all of them or some."""

from __future__ import annotations

from enum import StrEnum


class DeskPart(StrEnum):
    """One of them."""

    INTAKE = "intake"  # errors become cases
    RELAY = "relay"  # what was decided is sent
    REPLAYER = "replayer"  # lanes release what is due
    JOBS = "jobs"  # bulk jobs and rehearsals
    NOTICES = "notices"  # webhooks and e-mails, and what they are about
    JANITOR = "janitor"  # what is past its time is deleted


PULLING = (DeskPart.INTAKE, DeskPart.RELAY, DeskPart.REPLAYER)  # in the order of a record's way
