"""What a client has to know after its machine restarted: one JSON file, used by one process at a time.

The file is there whole or not at all. `SendState` is the state of a client that sends, `ReceiveState` of one that
receives.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from towpath.client.protocol import NewSender
from towpath.errors import BadStateFile, BadValue, SourceChanged

VERSION = 1

_REMEDY = "give the same command as then, or begin a new upload (--new)"


class StateFile:
    """The state file of a client. Used as a context manager: inside the block no other process can use it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None

    def __enter__(self) -> Self:
        beside = self._beside("lock")
        try:
            self._lock = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.__exit__()
            raise BadStateFile(f"{self.path} is in use: another towpath works with it on this machine") from None
        except OSError as error:
            raise BadStateFile(f"{beside} cannot be made: {error.strerror or error}") from error
        return self

    def __exit__(self, *ignored: object) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def read(self) -> dict[str, Any] | None:
        """The state that was written last; None: none yet."""
        return read_state(self.path)

    def write(self, state: dict[str, Any]) -> None:
        """Remember this, through a crash of the machine too."""
        hidden = self._beside("new")
        try:
            with open(hidden, "w", encoding="utf-8") as file:
                json.dump({"version": VERSION, **state}, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            os.replace(hidden, self.path)
            sync_directory(self.path.parent)
        except OSError as error:
            raise BadStateFile(f"{self.path} cannot be written: {error.strerror or error}") from error

    def remove(self) -> None:
        """Delete the file: there is nothing to continue."""
        self.path.unlink(missing_ok=True)

    def _beside(self, kind: str) -> Path:
        return self.path.with_name(f".{self.path.name}.{kind}")


def read_state(path: Path) -> dict[str, Any] | None:
    """The state in a file, without using it."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise BadStateFile(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not isinstance(found, dict) or found.get("version") != VERSION:
        raise BadStateFile(f"{path} is no state of a client, or one of another version of Towpath")
    return found


def sync_directory(path: Path) -> None:
    """Make sure that what was renamed or made in it is there after a power cut."""
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


@dataclass(frozen=True, slots=True)
class SendState:
    """An upload, its server and its senders."""

    upload: str
    server: str
    stream: str
    label: str
    senders: tuple[PlannedSender, ...]
    is_open: bool = False
    is_finished: bool = False

    @classmethod
    def new(cls, server: str, stream: str, label: str, senders: Sequence[PlannedSender]) -> SendState:
        return cls(str(uuid4()), server, stream, label, tuple(senders))

    def item(self) -> dict[str, Any]:
        return {
            "kind": "send",
            "upload": self.upload,
            "server": self.server,
            "stream": self.stream,
            "label": self.label,
            "is_open": self.is_open,
            "is_finished": self.is_finished,
            "senders": [each.item() for each in self.senders],
        }

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> SendState:
        try:
            senders = tuple(PlannedSender.read(each) for each in item["senders"])
            upload, server, stream, label = (str(item[name]) for name in ("upload", "server", "stream", "label"))
            return cls(upload, server, stream, label, senders, bool(item["is_open"]), bool(item["is_finished"]))
        except (KeyError, TypeError, ValueError) as error:
            raise BadStateFile(f"the state file is not one of `towpath send`: {error!r}") from error

    def finished(self, sums: Mapping[str, int]) -> SendState:
        """The finished state, with the crc32 of what each sender has sent."""
        senders = tuple(replace(each, crc32=sums[each.new.sender]) for each in self.senders)
        return replace(self, senders=senders, is_finished=True)

    def check_same(self, stream: str, planned: Sequence[PlannedSender]) -> None:
        """`SourceChanged` when this is not what the upload began with, as far as can be told without reading it all."""
        if stream != self.stream:
            raise SourceChanged(f"the state file is of an upload to {self.stream}, not to {stream}; {_REMEDY}")
        then = {each.new.sender: each for each in self.senders}
        for each in planned:
            if (known := then.pop(each.new.sender, None)) is None:
                raise SourceChanged(f"the upload that the state file knows has no sender {each.new.sender}; {_REMEDY}")
            _check_same(known, each)
        if then:
            raise SourceChanged(f"the upload that the state file knows has also {', '.join(then)}; {_REMEDY}")


@dataclass(frozen=True, slots=True)
class PlannedSender:
    """A sender and its file. Standard input has no size."""

    new: NewSender
    file: str
    begin: int  # where the data begins, behind a header
    size: int | None
    crc32: int | None = None  # of all of it, when it is sent

    @property
    def is_standard_input(self) -> bool:
        return self.size is None

    def item(self) -> dict[str, Any]:
        named = {"file": self.file, "begin": self.begin, "size": self.size, "crc32": self.crc32}
        return self.new.item() | named

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> PlannedSender:
        columns = None if item["columns"] is None else tuple(item["columns"])
        new = NewSender(item["sender"], item["input"], item["format"], columns, item["first_line"])
        return cls(new, item["file"], item["begin"], item["size"], item["crc32"])


@dataclass(frozen=True, slots=True)
class ReceiveState:
    """Which upload goes to a directory, in which form, and how far each query has come."""

    upload: str
    form: str
    known: tuple[str, ...] = ()  # all queries of the upload
    queries: Mapping[str, ReceivedQuery] = field(default_factory=dict)

    def item(self) -> dict[str, Any]:
        named = {"kind": "receive", "upload": self.upload, "format": self.form, "known": list(self.known)}
        return named | {"queries": [asdict(each) for each in self.queries.values()]}

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> ReceiveState:
        try:
            queries = [ReceivedQuery(**each) for each in item["queries"]]
            known = tuple(map(str, item["known"]))
            return cls(str(item["upload"]), str(item["format"]), known, {each.query: each for each in queries})
        except (KeyError, TypeError) as error:
            raise BadStateFile(f"the state file is not one of `towpath receive`: {error!r}") from error

    def after(self, *received: ReceivedQuery) -> ReceiveState:
        return replace(self, queries={**self.queries, **{each.query: each for each in received}})

    def check(self, upload: str, form: str) -> None:
        if (upload, form) != (self.upload, self.form):
            raise BadValue(
                f"this directory has results of upload {self.upload} as {self.form}; take another one for upload "
                f"{upload} as {form}"
            )


@dataclass(frozen=True, slots=True)
class ReceivedQuery:
    """How much of a query is safe in its file."""

    query: str
    bytes: int = 0
    rows: int = 0
    cursor: str | None = None
    is_complete: bool = False  # all rows are here
    is_acknowledged: bool = False  # and the server knows


def _check_same(then: PlannedSender, now: PlannedSender) -> None:
    if then.is_standard_input or now.is_standard_input:
        raise SourceChanged(
            "what was read from standard input is gone with the client that read it: an upload from there cannot be "
            "gone on with. Begin a new one (--new); an operator sees the old one and can abort it"
        )
    if then.new != now.new or then.begin != now.begin:
        raise SourceChanged(f"{now.file} has other columns, or another form, than when its upload began; {_REMEDY}")
    if then.size != now.size:
        raise SourceChanged(
            f"{now.file} has {now.size:,} bytes of data, and had {then.size:,} when its upload began. Bring the old "
            "file back, or send this one as a new upload (--new)"
        )
