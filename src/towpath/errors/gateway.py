"""Errors of uploads and results, on the side of the gateway and of its clients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from towpath.errors.base import Refused, TowpathError


class ClientError(TowpathError):
    """A client of a server cannot go on. What was acknowledged is safe."""


class GatewayAway(ClientError):
    """The gateway did not answer, or only with "later", for longer than was allowed. The same command goes on."""


class GatewayRefused(ClientError):
    """The gateway refuses a request. The text is its own; `code` is for programs."""

    def __init__(self, status: int, code: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        self.status = status
        self.code = code
        self.message = message
        self.details = dict(details or {})
        super().__init__(f"the gateway refuses: {message}" + (f" ({code})" if code else ""))


class SenderReplaced(ClientError):
    """Another client has begun to send as this sender; the newest counts. End one of the two."""


class ServerAway(ClientError):
    """The server of `--remote` did not answer, or only with "later". The text says whether a change may have been made.

    See whether it runs (`towpath console`, `towpath api run`), and whether the address is right.
    """


class ServerRefused(ClientError):
    """The server of `--remote` refuses what a command asks for. The text is its own; `code` is for programs."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status = status
        self.code = code
        super().__init__(message)


class SourceChanged(ClientError):
    """A file is not what it was when its upload began, or what the server has is not what was sent.

    Bring the old file back, or begin a new upload.
    """


class BadStateFile(ClientError):
    """The state file of a client cannot be read or written, is of another kind, or another process uses it."""


class UnknownStream(Refused):
    """No stream of that name, or no such input of it, is in the settings (`gateway.streams`)."""

    def __init__(self, name: str, known: Iterable[str], what: str = "stream") -> None:
        self.name = name
        self.known = sorted(known)
        shown = ", ".join(self.known[:10]) or "none; name them in the settings under gateway.streams"
        super().__init__(f"there is no {what} {name!r}; there are: {shown}")


class UnknownUpload(Refused):
    """No upload has that id, or it is somebody else's. Only who opened an upload can go on with it."""

    def __init__(self, id: str) -> None:
        self.id = id
        super().__init__(f"there is no upload {id!r} of yours (never opened, or forgotten after its retention time)")


class UnknownSender(Refused):
    """The upload has no sender of that name. Senders are named when an upload is opened."""

    def __init__(self, upload: str, sender: str) -> None:
        self.upload = upload
        self.sender = sender
        super().__init__(f"upload {upload} has no sender {sender!r}; its senders were named when it was opened")


class UploadExists(Refused):
    """An upload of that id was opened before, by somebody else or in another way. Choose another id."""

    def __init__(self, id: str) -> None:
        self.id = id
        super().__init__(f"an upload with the id {id} was opened before, and is another one; choose another id")


class IllegalUploadMove(Refused):
    """The upload is not in a state from which this is allowed. Look at it again: it may have ended."""

    def __init__(self, id: str, state: str, move: str, allowed: Iterable[str]) -> None:
        self.id = id
        self.state = state
        self.move = move
        self.allowed = tuple(allowed)
        super().__init__(f"upload {id} is {state}: to {move} it is allowed only from {' or '.join(self.allowed)}")


class SessionReplaced(Refused):
    """The sender has connected again, here or elsewhere: the newest connection counts, and this one is an older one.

    End one of the two clients, or ask for a new session.
    """

    def __init__(self, upload: str, sender: str, session: int, newest: int) -> None:
        self.upload = upload
        self.sender = sender
        self.session = session
        self.newest = newest
        super().__init__(
            f"session {session} of sender {sender} is over: session {newest} is newer; ask for a new session to go on"
        )


class ChunkGap(Refused):
    """Bytes are missing between what was acknowledged and the chunk. Go on from `position`."""

    def __init__(self, offset: int, position: int) -> None:
        self.offset = offset
        self.position = position
        super().__init__(f"the chunk begins at {offset}, and only {position} bytes are there; go on from {position}")


class ChunkTooLarge(Refused):
    """The chunk, uncompressed, is larger than `gateway.chunk_bytes`. Send less at once."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(f"a chunk has {limit} bytes at most (gateway.chunk_bytes), uncompressed; send less at once")


class BadChunk(Refused):
    """The chunk was to be gzip, and is not, or not whole. Nothing of it was taken; send it again."""


class LineTooLong(Refused):
    """A line is longer than `gateway.line_bytes`. Its sender can skip it: it becomes a case, and the rest goes on."""

    def __init__(self, position: int, line: int, limit: int) -> None:
        self.position = position
        self.line = line
        self.limit = limit
        super().__init__(
            f"line {line}, at {position}, is longer than {limit} bytes (gateway.line_bytes); skip it to go on behind it"
        )


class UploadTooLarge(Refused):
    """The upload would have more bytes or lines than one may have (`gateway.upload_bytes`, `gateway.upload_lines`)."""

    def __init__(self, what: str, most: int) -> None:
        self.most = most
        super().__init__(f"an upload has {most} {what} at most (gateway.upload_{what}); send the rest as another one")


class SumDiffers(Refused):
    """What the sender says it has sent is not what was acknowledged. The upload does not close on it."""


class NotYet(TowpathError):
    """A chunk cannot be taken now. Nothing was written; the same one can be sent again after `retry_after_s`.

    `reason` is `after` (another input has to be through first), `behind` (the flow has too much to read) or `busy`
    (another process serves the sender, or another request of it is being worked on).
    """

    def __init__(self, reason: str, message: str, retry_after_s: float) -> None:
        self.reason = reason
        self.retry_after_s = retry_after_s
        super().__init__(message)


class UnknownQuery(Refused):
    """The upload has no result of that name. Its status tells which it has."""

    def __init__(self, upload: str, query: str, known: Iterable[str]) -> None:
        self.upload = upload
        self.query = query
        self.known = sorted(known)
        super().__init__(f"upload {upload} has no result {query!r}; it has {', '.join(self.known) or 'none'}")


class BadCursor(Refused):
    """The text is no cursor of this result. Use the one that came with the last page, or none to begin anew."""

    def __init__(self, cursor: str, why: str) -> None:
        self.cursor = cursor
        super().__init__(f"the cursor {cursor[:60]!r} cannot be used: {why}")


class ResultsGone(Refused):
    """The upload has ended: its results were acknowledged, or nobody came for them in time."""

    def __init__(self, upload: str, state: str) -> None:
        self.upload = upload
        self.state = state
        super().__init__(f"upload {upload} is {state}: its results were removed")
