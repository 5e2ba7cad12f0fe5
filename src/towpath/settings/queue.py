"""Settings of the queue."""

from __future__ import annotations

from pydantic import Field

from towpath.settings.part import Age, Part, Seconds


class RetentionSettings(Part):
    """How long finished messages and events are kept, in seconds, or `"never"`: they are never deleted."""

    ok_s: Age = Field(3 * 86400.0, description="Age at which OK messages are deleted.")
    dead_s: Age = Field(14 * 86400.0, description="Age at which DEAD messages are deleted.")
    err_s: Age = Field(None, description="Age at which ERR messages are deleted; kept by default.")
    event_s: Age = Field(90 * 86400.0, description="Age at which events are deleted.")
    process_s: Age = Field(86400.0, description="Age at which rows of ended processes are deleted.")


class QueueSettings(Part):
    """The message queue."""

    max_payload_bytes: int = Field(
        1 << 20, ge=16, le=256 << 20, description="Largest payload of one message, and largest headers."
    )
    poll_s: Seconds = Field(
        1.0,
        description="How often an idle inbox looks by itself, in case a wake-up was lost. Wake-ups take milliseconds.",
    )
    caretaker_s: Seconds = Field(1.0, description="How often dead owners and expired messages are looked for.")
    janitor_s: Seconds = Field(300.0, description="How often messages past their retention time are deleted.")
    reply_ttl_s: Seconds = Field(3 * 86400.0, description="An answer that nobody fetches for this long is DEAD.")
    retention: RetentionSettings = RetentionSettings()
