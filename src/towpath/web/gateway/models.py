"""Uploads, their senders, streams and results as they are sent and shown."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from towpath.gateway.lines.lines import LARGEST
from towpath.gateway.outlet.service import QueryView
from towpath.gateway.uploads.model import (
    ChunkReceipt,
    SenderRequest,
    SenderState,
    StoredUpload,
    UploadSender,
    UploadState,
    UploadStatus,
)
from towpath.gateway.uploads.streams import Stream
from towpath.operations.model import LONGEST_WHY, RequestBody, Why
from towpath.settings import GatewaySettings

LONGEST_NAME = 100
LONGEST_LABEL = 200
LONGEST_BEGINNING = 1_000
LONGEST_CURSOR = 1_000
MOST_SENDERS = 100
MOST_COLUMNS = 2_000
LARGEST_CRC32 = 2**32 - 1

Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
Columns = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=300)]], Field(min_length=1, max_length=MOST_COLUMNS)
]
Number = Annotated[int, Field(ge=0, le=LARGEST)]
Crc32 = Annotated[
    int, Field(ge=0, le=LARGEST_CRC32, description="CRC-32 of all bytes from the beginning to here, as zlib has it.")
]
Cursor = Annotated[str, Field(min_length=1, max_length=LONGEST_CURSOR)]


class NewSender(RequestBody):
    """Somebody who sends one input of an upload."""

    sender: Name = Field(description="Its name in the upload.")
    input: Name = Field(description="Which input of the stream.")
    format: Literal["jsonl", "csv"] = Field("csv", description="What its lines are.")
    columns: Columns | None = Field(None, description="CSV: the names of its columns, in order.")
    first_line: int = Field(
        1, ge=1, le=LARGEST, description="The number of the first line that is sent, as people count: 2 after a header."
    )

    def value(self) -> SenderRequest:
        columns = None if self.columns is None else tuple(self.columns)
        return SenderRequest(self.sender, self.input, self.format, columns, self.first_line)


class NewUpload(RequestBody):
    """An upload to be opened."""

    stream: Name
    senders: list[NewSender] = Field(min_length=1, max_length=MOST_SENDERS)
    label: str = Field("", max_length=LONGEST_LABEL, description="What people see; you choose it.")
    id: UUID | None = Field(None, description="A UUID that you made: however often it is asked for, one is opened.")


class NewSession(RequestBody):
    """A connection of a sender."""

    columns: Columns | None = Field(None, description="CSV: its columns, if they were not said before.")


class Skip(RequestBody):
    """A line that is longer than the server takes, and is left out: it becomes a case."""

    session: Number
    sequence: Number
    offset: Number = Field(description="Where the line begins.")
    bytes: Annotated[int, Field(ge=1, le=LARGEST)] = Field(description="How long it is, with the end of the line.")
    crc32: Crc32
    beginning: str = Field(max_length=LONGEST_BEGINNING, description="How the line begins.")
    why: Why


class Finish(RequestBody):
    """The end of a sender's data."""

    session: Number
    bytes: Number = Field(description="How many bytes it has sent in all.")
    crc32: Crc32


class Abort(RequestBody):
    """Why an upload is given up."""

    why: Annotated[str, Field(min_length=1, max_length=LONGEST_WHY, description="Why; kept with the upload.")]


class Acknowledge(RequestBody):
    """All before this cursor is safe with the client."""

    cursor: Cursor


class TakenOut(BaseModel):
    """How far a sender's data is durable in the log."""

    position: int = Field(description="Go on sending here: all bytes before are durable.")
    line: int = Field(description="The number of the last line that was taken.")
    sequence: int = Field(description="The number of the last chunk that was taken.")
    refused: int = Field(description="How many of the lines could not be read; each is a case.")
    crc32: int = Field(description="CRC-32 of all bytes before `position`.")

    @classmethod
    def of(cls, taken: ChunkReceipt) -> TakenOut:
        return cls.model_validate({name: getattr(taken, name) for name in TakenOut.model_fields})


class ChunkOut(TakenOut):
    """The same after a chunk, and how large the next one may be."""

    next_bytes: int = Field(
        description="Send no more than so many bytes next, unpacked, while others send, too: all get the same then."
    )

    @classmethod
    def of_chunk(cls, taken: ChunkReceipt, next_bytes: int) -> ChunkOut:
        return cls.model_validate({**TakenOut.of(taken).model_dump(), "next_bytes": next_bytes})


class SenderOut(TakenOut):
    """A sender, and how far it is."""

    sender: str
    input: str
    format: Literal["jsonl", "csv"]
    columns: list[str] | None
    state: SenderState
    session: int = Field(description="The number of its newest connection; 0: there was none yet.")
    blocked: int = Field(description="How many of the lines block rules have kept out; they are no records.")

    @classmethod
    def of_sender(cls, sender: UploadSender) -> SenderOut:
        return cls.model_validate(_sender_item(sender))


class SessionOut(SenderOut):
    """A new connection: where to go on, and what the server takes at once."""

    chunk_bytes: int = Field(description="Most bytes of a chunk, unpacked.")
    line_bytes: int = Field(description="Most bytes of a line.")

    @classmethod
    def of_session(cls, sender: UploadSender, settings: GatewaySettings) -> SessionOut:
        limits = {"chunk_bytes": settings.chunk_bytes, "line_bytes": settings.line_bytes}
        return cls.model_validate({**_sender_item(sender), **limits})


class UploadRow(BaseModel):
    """An upload in a list."""

    id: str
    stream: str
    state: UploadState
    owner: str
    label: str
    opened_at: datetime
    touched_at: datetime
    closed_at: datetime | None
    sending_at: datetime | None
    ended_at: datetime | None
    who: str | None = Field(description="Who has ended it before its time.")
    reason: str | None = Field(description="Why it was ended, or why its closing steps fail so far.")
    tries: int = Field(description="How often its closing steps have failed.")

    @classmethod
    def of_upload(cls, upload: StoredUpload) -> UploadRow:
        return cls.model_validate(_upload_item(upload))


class UploadOut(UploadRow):
    """An upload and its senders."""

    senders: list[SenderOut]

    @classmethod
    def of(cls, status: UploadStatus) -> UploadOut:
        senders = [SenderOut.of_sender(sender) for sender in status.senders]
        return cls.model_validate({**_upload_item(status.upload), "senders": senders})


class InputOut(BaseModel):
    """One input of a stream."""

    input: str
    ddl: str | None = Field(serialization_alias="schema", description="Columns and types; null: anything.")
    key: str | None
    after: list[str] = Field(description="Inputs that have to be through before this one is taken.")


class StreamOut(BaseModel):
    """A kind of upload, as the settings have it."""

    stream: str
    inputs: list[InputOut]
    results: list[str]
    chunk_bytes: int
    line_bytes: int

    @classmethod
    def of(cls, stream: Stream, settings: GatewaySettings) -> StreamOut:
        return cls(
            stream=stream.name,
            inputs=[
                InputOut(input=each.name, ddl=each.ddl or None, key=each.key or None, after=list(each.after))
                for each in stream.inputs.values()
            ],
            results=list(stream.results),
            chunk_bytes=settings.chunk_bytes,
            line_bytes=settings.line_bytes,
        )


class StreamList(BaseModel):
    """What may be sent here."""

    items: list[StreamOut]


class ResultOut(BaseModel):
    """A result of an upload, and how far its client has it."""

    query: str
    kind: Literal["streamed", "closing", ""] = Field(
        description="Whether rows come while data comes, or at its end; empty: not known yet."
    )
    state: Literal["open", "complete"] = Field(description="`complete`: no more rows will come.")
    rows: int | None = Field(description="How many; known when it is complete.")
    bytes: int | None
    cursor: str | None = Field(description="How far it is acknowledged; null: not at all.")
    acknowledged_at: datetime | None
    is_acknowledged: bool = Field(description="Whether its client has all of it.")

    @classmethod
    def of(cls, view: QueryView) -> ResultOut:
        return cls.model_validate({name: getattr(view, name) for name in cls.model_fields})


class Results(BaseModel):
    """All results of an upload."""

    items: list[ResultOut]


def _sender_item(sender: UploadSender) -> dict[str, object]:
    names = ("input", "format", "state", "session", "position", "line", "sequence", "refused", "blocked", "crc32")
    columns = None if sender.columns is None else list(sender.columns)
    return {"sender": sender.name, "columns": columns, **{name: getattr(sender, name) for name in names}}


def _upload_item(upload: StoredUpload) -> dict[str, object]:
    names = set(UploadRow.model_fields) - {"reason"}
    return {"reason": upload.why, **{name: getattr(upload, name) for name in names}}
