"""Settings of the queue, actors, access, the HTTP interface, data sets, complaints and notifications."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field, model_validator

from towpath.settings.base import Age, Seconds, SettingsSection

NoticeKindName = Literal["group_found", "group_regressed", "lane_stuck", "desk_growing", "duty_failed"]
_ALL_KINDS: list[NoticeKindName] = list(get_args(NoticeKindName))
TargetName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$")]


class RetentionSettings(SettingsSection):
    """How long finished messages and events are kept, in seconds, or `"never"`: they are never deleted."""

    ok_s: Age = Field(3 * 86400.0, description="Age at which OK messages are deleted.")
    dead_s: Age = Field(14 * 86400.0, description="Age at which DEAD messages are deleted.")
    err_s: Age = Field(None, description="Age at which ERR messages are deleted; kept by default.")
    event_s: Age = Field(90 * 86400.0, description="Age at which events are deleted.")
    process_s: Age = Field(86400.0, description="Age at which rows of ended processes are deleted.")


class QueueSettings(SettingsSection):
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


class ActorSettings(SettingsSection):
    """Actors: durable state machines on the queue."""

    modules: list[str] = Field(
        [],
        description="Python modules or `.py` files whose actors `towpath actor run` runs, seen from the directory of "
        "the settings file.",
    )
    workers: int = Field(
        16, ge=1, le=256, description="How many states may run at once in one process, each in a thread."
    )
    grace_s: Seconds = Field(
        10.0, description="How long a process that is told to stop lets the states finish that run."
    )
    directory: str = Field(
        ".towpath/actors", description="What processes write that spawner actors run: one log an instance."
    )
    retention_s: Age = Field(
        14 * 86400.0,
        description="Age at which an instance that a call has made and that has ended is deleted, or `never`.",
    )
    failed_retention_s: Age = Field(
        None, description="The same for one that has failed; kept by default, until a person has looked at it."
    )


class AccessSettings(SettingsSection):
    """Users, API keys, and the record of what was done in whose name."""

    audit_retention_s: Age = Field(
        365 * 86400.0, description="Age at which audit rows are deleted, or `never`. Done by `towpath api run`."
    )
    request_retention_s: Seconds = Field(
        86400.0, description="How long the answer to a request with an idempotency key is kept."
    )
    janitor_s: Seconds = Field(300.0, description="How often what is past these times is deleted.")
    failures: int = Field(
        5, ge=1, le=1000, description="Log-ins that may fail in a row, by name and by address, before one has to wait."
    )
    failure_wait_s: Seconds = Field(
        2.0, description="The first such wait; each further failure doubles it, up to a quarter of an hour."
    )
    key_age_s: Age = Field(
        90 * 86400.0, description="How long an API key counts when nothing else is said, or `never`: without end."
    )
    session_s: Seconds = Field(
        12 * 3600.0, description="How long somebody stays logged in at the console after they have used it last."
    )
    link_s: Seconds = Field(86400.0, description="How long a link for choosing a password can be used.")
    block_retention_s: Age = Field(
        365 * 86400.0, description="Age at which block rules are deleted that do not count any more, or `never`."
    )


class ApiSettings(SettingsSection):
    """The HTTP interface: `towpath api run`."""

    host: str = Field("127.0.0.1", description="The interface to listen on.", pattern=r"^[a-zA-Z0-9.:_-]+$")
    port: int = Field(8470, ge=0, le=65535, description="The port to listen on; 0 for a free one.")
    remote: bool = Field(
        False,
        description="Listen also on an interface that others can reach. Put TLS in front: keys travel with requests.",
    )
    hosts: list[str] = Field(
        [],
        description="Names under which it may be asked, besides those of this machine's loopback. A web page that "
        "points its own name here is refused.",
    )
    max_body_bytes: int = Field(8 << 20, ge=1024, le=256 << 20, description="Largest body of a request.")
    threads: int = Field(16, ge=1, le=256, description="How many requests are worked on at once.")
    open_metrics: bool = Field(False, description="Serve `/metrics` also without a key.")
    tls_certificate: str = Field("", description="File of a certificate (PEM, with its chain): serve HTTPS with it.")
    tls_key: str = Field("", description="File of the certificate's key.")


class CatalogSettings(SettingsSection):
    """Data sets: what runs have made."""

    retention_s: Age = Field(
        90 * 86400.0,
        description="Age at which the row of a deleted data set is forgotten, or `never`. One that others were made "
        "from stays as long as theirs.",
    )
    janitor_s: Seconds = Field(
        300.0, description="How often deletions that were cut off are ended, and old rows are forgotten."
    )


class ComplaintSettings(SettingsSection):
    """What readers say about documents."""

    public: bool = Field(False, description="Take complaints at `POST /complaints` from anybody, without a key.")
    per_minute: Annotated[float, Field(gt=0, le=6_000)] = Field(
        5.0, description="How many are taken from one address in a minute."
    )
    most_new: int = Field(
        1_000, ge=1, description="While so many wait that nobody has looked at, no more are taken from the public."
    )
    retention_s: Age = Field(365 * 86400.0, description="Age at which settled complaints are deleted, or `never`.")
    janitor_s: Seconds = Field(300.0, description="How often old complaints are deleted. Done by `towpath api run`.")


class WebhookSettings(SettingsSection):
    """One webhook."""

    name: TargetName
    url: str = Field(pattern=r"^https?://[^\s@]+$", repr=False)  # may hold a token in its path
    secret: str = Field(min_length=16, repr=False)
    kinds: list[NoticeKindName] = _ALL_KINDS


class EmailSettings(SettingsSection):
    """One e-mail notification."""

    name: TargetName
    to: list[Annotated[str, Field(pattern=r"^[^\s<>,;@]+@[^\s<>,;@]+$")]] = Field(min_length=1)
    kinds: list[NoticeKindName] = _ALL_KINDS


class SmtpSettings(SettingsSection):
    """The mail server."""

    host: str = Field("", description="Its name; empty: there is none.", pattern=r"^[a-zA-Z0-9.:_-]*$")
    port: int = Field(587, ge=1, le=65535, description="Its port.")
    security: Literal["starttls", "tls", "none"] = Field(
        "starttls", description="`starttls` (usually port 587), `tls` from the start (465), or `none` at all."
    )
    user: str = Field("", description="Log-in at the server; empty: without.")
    password: str = Field("", repr=False, description="Its password.")
    sender: str = Field("towpath@localhost", description="From whom mails are.", pattern=r"^[^\s<>,;@]+@[^\s<>,;@]+$")


class NotifySettings(SettingsSection):
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
