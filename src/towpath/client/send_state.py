"""What a client that sends has to know after its machine restarted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from towpath.client.told import NewSender
from towpath.errors import BadStateFile, SourceChanged


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

    def at(self, server: str) -> SendState:
        return replace(self, server=server)

    def opened(self) -> SendState:
        return replace(self, is_open=True)

    def finished(self, sums: Mapping[str, int]) -> SendState:
        """With the crc32 of what each sender has sent."""
        senders = tuple(replace(each, crc32=sums[each.new.sender]) for each in self.senders)
        return replace(self, senders=senders, is_finished=True)

    def check_same(self, stream: str, planned: Sequence[PlannedSender]) -> None:
        """What is to be sent now is what was to be sent then, as far as that shows without reading it all."""
        if stream != self.stream:
            raise SourceChanged(f"the state file is of an upload to {self.stream}, not to {stream}; {_REMEDY}")
        then = {each.new.sender: each for each in self.senders}
        for each in planned:
            if (known := then.pop(each.new.sender, None)) is None:
                raise SourceChanged(f"the upload that the state file knows has no sender {each.new.sender}; {_REMEDY}")
            _check_same(known, each)
        if then:
            raise SourceChanged(f"the upload that the state file knows has also {', '.join(then)}; {_REMEDY}")


_REMEDY = "give the same command as then, or begin a new upload (--new)"


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
