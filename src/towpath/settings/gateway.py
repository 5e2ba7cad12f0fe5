"""Settings of the gateway: its streams, their inputs, and when they expire."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from towpath.settings.base import Age, Most, MostRate, Seconds, SettingsSection

StreamName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9_-]{0,59}$")]
InputName = StreamName
ResultName = StreamName


class InputSettings(SettingsSection):
    """One input of a stream: the topic that its lines go to, and what they must look like."""

    topic: str = Field("", description="The topic; empty: `STREAM.INPUT`, or `STREAM` if both are called the same.")
    partitions: int | None = Field(
        None, ge=1, le=10_000, description="Partitions of the topic when the gateway makes it; else `log.partitions`."
    )
    ddl: str = Field(
        "",
        alias="schema",
        description="What its lines must look like, as `name string not null, at bigint`. Without one, columns of a "
        "CSV are strings, and JSON lines are any objects.",
    )
    key: str = Field(
        "", description="The field whose text is the key of a record; `upload_field` keeps an upload in one partition."
    )
    after: list[InputName] = Field(
        [], description="Inputs of the same upload that the flow must have passed before this one is taken."
    )


class StreamSettings(SettingsSection):
    """One kind of upload that clients may open."""

    flow: str = Field(
        "", description="The flow whose stages must have passed the data before an upload closes; empty: none."
    )
    upload_field: str = Field(
        "upload", min_length=1, description="The field of each record that holds the id of its upload."
    )
    line_field: str = Field("", description="The field that holds the number of its line; empty: none.")
    results: list[ResultName] = Field([], description="Names of the queries whose results go back to the client.")
    wait_for_replays_s: Age = Field(
        None,
        description="How long an upload that could close waits for records of it that are being replayed; `never`: "
        "not at all.",
    )
    inputs: dict[InputName, InputSettings] = Field({}, description="Its inputs; none: one that is called like it.")

    @model_validator(mode="after")
    def _inputs_fit(self) -> StreamSettings:
        if self.line_field == self.upload_field:
            raise ValueError(f"upload_field and line_field are both {self.line_field!r}")
        if len(set(self.results)) < len(self.results):
            raise ValueError("results names one query twice")
        for name, each in self.inputs.items():
            unknown = [other for other in each.after if other not in self.inputs or other == name]
            if unknown:
                raise ValueError(f"inputs.{name}.after: {unknown[0]} is not another input of the stream")
        return self


class ExpirySettings(SettingsSection):
    """A rule by which uploads that nobody goes on with expire."""

    stream: str = Field("*", description="Of which stream; `*`: of all.")
    state: Literal["receiving", "sending"] = Field(
        description="In which state: `receiving` (never finished) or `sending` (results never fetched)."
    )
    after_s: Seconds = Field(description="How long nobody was heard of.")
    approved_by: str = Field(min_length=1, description="The person who answers for it.")
    why: str = Field(min_length=1, description="The reason.")


class GatewaySettings(SettingsSection):
    """Uploads of clients, and results for them."""

    directory: str = Field(
        "towpath-uploads",
        description="Where results and collected data lie. With several hosts: a directory that all of them share.",
    )
    chunk_bytes: int = Field(8 << 20, ge=1024, le=256 << 20, description="Largest chunk of one request, uncompressed.")
    line_bytes: int = Field(
        1 << 20,
        ge=64,
        le=32 << 20,
        description="Longest line; a longer one becomes a case. At most a quarter of `log.max_record_bytes`.",
    )
    upload_bytes: Most = Field(None, description="Most bytes of one upload; `never`: no limit.")
    upload_lines: Most = Field(None, description="Most lines of one upload; `never`: no limit.")
    requests_per_s: MostRate = Field(None, description="Most requests a second with one API key; `never`: no limit.")
    bytes_per_s: MostRate = Field(None, description="Most bytes a second with one API key; `never`: no limit.")
    behind_records: int = Field(
        2_000_000, ge=1, description="A flow that has more than so many records to read takes no more from senders."
    )
    retry_after_s: Seconds = Field(1.0, description="When a sender that has to wait is told to come again.")
    idle_s: Seconds = Field(60.0, description="What is kept open for a sender is closed after so long without a chunk.")
    settle_s: Seconds = Field(
        600.0,
        description="What a process left undecided when it died in the middle of a chunk is decided after this time, "
        "also if the sender does not come back.",
    )
    retention_s: Age = Field(
        90 * 86400.0, description="Age at which the row of an upload that has ended is deleted, or `never`."
    )
    janitor_s: Seconds = Field(300.0, description="How often rules of expiry are applied, and old uploads deleted.")
    streams: dict[StreamName, StreamSettings] = Field({}, description="What clients may send.")
    expiry: list[ExpirySettings] = Field(
        [],
        description="Rules by which uploads expire that nobody goes on with, each with `stream`, `state`, `after_s`, "
        "`approved_by` and `why`. Without one they are kept.",
    )

    @model_validator(mode="after")
    def _chunks_hold_lines(self) -> GatewaySettings:
        if self.chunk_bytes < 2 * self.line_bytes:
            raise ValueError(
                f"chunk_bytes ({self.chunk_bytes}) must be at least twice line_bytes ({self.line_bytes}), "
                "or it could not be seen that a line is too long"
            )
        unknown = [rule.stream for rule in self.expiry if rule.stream != "*" and rule.stream not in self.streams]
        if unknown:
            raise ValueError(f"expiry: there is no stream {unknown[0]!r}")
        return self
