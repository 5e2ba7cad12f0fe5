"""Settings of notices: what is told to whom."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from towpath.settings.part import Age, Part, Seconds

NoticeKindName = Literal["group_found", "group_regressed", "lane_stuck", "desk_growing", "duty_failed"]
_ALL_KINDS: list[NoticeKindName] = ["group_found", "group_regressed", "lane_stuck", "desk_growing", "duty_failed"]
TargetName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$")]


class WebhookSettings(Part):
    """One webhook."""

    name: TargetName
    url: str = Field(pattern=r"^https?://[^\s@]+$", repr=False)  # may hold a token in its path
    secret: str = Field(min_length=16, repr=False)
    kinds: list[NoticeKindName] = _ALL_KINDS


class EmailSettings(Part):
    """One e-mail notification."""

    name: TargetName
    to: list[Annotated[str, Field(pattern=r"^[^\s<>,;@]+@[^\s<>,;@]+$")]] = Field(min_length=1)
    kinds: list[NoticeKindName] = _ALL_KINDS


class SmtpSettings(Part):
    """The mail server."""

    host: str = Field("", description="Its name; empty: there is none.", pattern=r"^[a-zA-Z0-9.:_-]*$")
    port: int = Field(587, ge=1, le=65535, description="Its port.")
    security: Literal["starttls", "tls", "none"] = Field(
        "starttls", description="`starttls` (usually port 587), `tls` from the start (465), or `none` at all."
    )
    user: str = Field("", description="Log-in at the server; empty: without.")
    password: str = Field("", repr=False, description="Its password.")
    sender: str = Field("towpath@localhost", description="From whom mails are.", pattern=r"^[^\s<>,;@]+@[^\s<>,;@]+$")


class NotifySettings(Part):
    """Notifications: what people should hear of, by webhook and e-mail."""

    window_s: Seconds = Field(
        60.0, description="How long notices are collected before they are sent together: at most one message in it."
    )
    repeat_s: Seconds = Field(3600.0, description="The same notice is not sent again within this time; it is counted.")
    timeout_s: Seconds = Field(10.0, description="Longest time for one delivery.")
    attempts: int = Field(
        10,
        ge=1,
        le=100,
        description="Deliveries that are tried, after 5 s, 10 s, 20 s … up to an hour, before giving up.",
    )
    retention_s: Age = Field(30 * 86400.0, description="Age at which notices that were sent are deleted, or `never`.")
    lane_stuck_s: Seconds = Field(300.0, description="A lane is stuck when what is due has waited for this long.")
    growing_cases: int = Field(1000, ge=1, description="The desk is growing when this many cases have been opened …")
    growing_s: Seconds = Field(600.0, description="… within this time.")
    ca_file: str = Field("", description="Certificates to trust in place of the system's, for webhooks and mail.")
    webhooks: list[WebhookSettings] = Field(
        [],
        repr=False,
        description="Each with `name`, `url`, `secret` (16 characters or more, or `whsec_…`) and perhaps `kinds`.",
    )
    emails: list[EmailSettings] = Field([], description="Each with `name`, `to` (a list) and perhaps `kinds`.")
    smtp: SmtpSettings = SmtpSettings()

    @model_validator(mode="after")
    def _targets_fit(self) -> NotifySettings:
        names = [*(each.name for each in self.webhooks), *(each.name for each in self.emails)]
        if len(set(names)) < len(names):
            raise ValueError("two targets have the same name")
        if self.emails and not self.smtp.host:
            raise ValueError("emails need a mail server: set notify.smtp.host")
        return self
