"""Settings of who may do what, and of the server that asks for it."""

from __future__ import annotations

from pydantic import Field

from towpath.settings.part import Age, Part, Seconds


class AccessSettings(Part):
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


class ApiSettings(Part):
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
