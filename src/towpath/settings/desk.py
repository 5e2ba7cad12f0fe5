"""Settings of the desk."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from towpath.settings.part import Age, Part, Seconds


class DeskSettings(Part):
    """The error desk."""

    directory: str = Field(
        ".towpath/desk", description="Bodies too large for a row. Shared by all hosts that run or use the desk."
    )
    large_body_bytes: int = Field(
        256 << 10, ge=1024, le=16 << 20, description="A larger body is a file in that directory, not a row."
    )
    intake_s: Seconds = Field(0.5, description="How often the desk looks for new errors and outcomes.")
    retention_s: Age = Field(
        30 * 86400.0,
        description="Age at which settled cases are deleted, with their attempts and history, or `never`.",
    )
    ignored_retention_s: Age = Field(
        30 * 86400.0, description="Age at which cases that a rule has ignored are deleted, or `never`."
    )
    group_retention_s: Age = Field(
        365 * 86400.0,
        description="Age of the last error at which a group without cases is deleted, with its history, or `never`. "
        "The same error makes a new group then.",
    )
    touched_retention_s: Age = Field(
        365 * 86400.0,
        description="Age at which it is forgotten what rules of corrections have changed, and what operators have put "
        "where something was suggested, or `never`. What was forgotten cannot be listed when a rule is reverted.",
    )
    evidence_retention_s: Age = Field(
        365 * 86400.0,
        description="How long a count that speaks for a rule is kept when nothing confirms it any more, or `never`.",
    )
    janitor_s: Seconds = Field(300.0, description="How often what is past these times is deleted.")
    masked: dict[str, list[str]] = Field(
        {},
        description="By flow, or `*` for all: fields that not everybody may see, as paths such as `customer.email`; "
        "`$key` is the record's key, `$headers.name` a header.",
    )
    sees_masked: Literal["viewer", "operator", "admin"] = Field(
        "admin", description="The lowest role that sees these fields all the same. Who does not see them cannot edit."
    )
    code: dict[str, str] = Field(
        {},
        description="By a name of your own: where flows are that may be rehearsed over HTTP, as MODULE:FLOW or "
        "FILE.py:FLOW, seen from where `towpath desk run` was started.",
    )
    second_person: bool = Field(
        False, description="An edited body goes out only after another person has agreed to it."
    )
    lane_order: Literal["strict", "all-due"] = Field(
        "all-due",
        description="What a lane releases: `all-due`, all records that are due; `strict`, none before one that lies "
        "in front of it.",
    )
    lane_s: Seconds = Field(0.25, description="How often lanes look for what has become due.")
    relay_s: Seconds = Field(1.0, description="How often the relay looks by itself, in case a wake-up was lost.")
    grace_s: Seconds = Field(10.0, description="How long `towpath desk run`, told to stop, lets its parts finish.")
