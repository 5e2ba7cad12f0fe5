"""Settings of a process."""

from __future__ import annotations

from pydantic import Field, model_validator

from towpath.settings.part import Part, Seconds


class ProcessSettings(Part):
    """How soon the death of a process is noticed."""

    name: str = Field("towpath", description="What people see as this process's name.", pattern=r"^[\w.:@/-]{1,80}$")
    heartbeat_s: Seconds = Field(2.0, description="How often a process renews its lease.")
    lease_s: Seconds = Field(
        10.0, description="A process that has not renewed for this long is dead, and its claims are freed."
    )
    grace_s: Seconds = Field(
        30.0,
        description="How long a process that SIGTERM tells to stop may go on with what it has begun; then it leaves, "
        "and others go on with that.",
    )

    @model_validator(mode="after")
    def _beats_fit_in_lease(self) -> ProcessSettings:
        if self.lease_s < 2.999 * self.heartbeat_s:  # 3 × 0.2 is a little more than 0.6 in binary
            raise ValueError(
                f"lease_s ({self.lease_s:g}) must be at least three times heartbeat_s ({self.heartbeat_s:g}), "
                "or one late beat would kill a living process"
            )
        return self
