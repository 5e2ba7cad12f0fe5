"""A whole upload: its state file, all of its senders at once, and how it goes on after any interruption.

`UploadPlan` turns what a person names into what is sent: files, their formats and columns, and who sends them.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from towpath.client.client import Client
from towpath.client.protocol import NewSender, Stopped, Waiting
from towpath.client.sender import OnSent, Sent
from towpath.client.sources import (
    ByteSource,
    CsvHeader,
    FileSource,
    Readable,
    Spool,
    check_columns,
    open_to_send,
    read_header,
)
from towpath.client.state import PlannedSender, SendState, StateFile
from towpath.core import crash
from towpath.core.crash import CrashPoint
from towpath.errors import BadValue, GatewayRefused, SourceChanged

JOIN_S = 0.2
LAST_WORDS_S = 2.0

STANDARD_INPUT = "-"

CSV, JSON_LINES = "csv", "jsonl"
FORMS = (CSV, JSON_LINES)
_BY_NAME = {".csv": CSV, ".jsonl": JSON_LINES, ".ndjson": JSON_LINES, ".json": JSON_LINES}


class UploadRun:
    """Sends what is planned. Without a state file, no other process can continue it."""

    def __init__(
        self,
        client: Client,
        stream: str,
        planned: Sequence[PlannedSender],
        sources: Mapping[str, ByteSource],
        *,
        state: StateFile | None,
        label: str = "",
        zip: bool = False,
    ) -> None:
        self._client = client
        self._stream = stream
        self._planned = tuple(planned)
        self._sources = sources
        self._file = state
        self._label = label
        self._zip = zip

    def begin(self, is_new: bool = False) -> SendState:
        """The upload that the state file knows, or a new one; it is open then."""
        found = None if is_new or self._file is None else self._file.read()
        if found is None:
            state = SendState.new(self._client.server, self._stream, self._label, self._planned)
            self._remember(state)
            crash.here(CrashPoint.CLIENT_STATE_WRITTEN)
        else:
            state = SendState.read(found)
            state.check_same(self._stream, self._planned)
            if state.server != self._client.server:  # it has moved
                state = replace(state, server=self._client.server)
                self._remember(state)
        return state if state.is_open else self._open(state)

    def run(self, state: SendState, watcher: Watcher) -> UploadResult:
        """Send all of it and say that this is the end."""
        if state.is_finished:
            return self._sent_before(state)
        ends = _Ends()
        threads = [self._thread(state.upload, each.new.sender, watcher, ends) for each in self._planned]
        self._wait(threads)
        if ends.failures:
            raise _worst(ends.failures)
        sent = tuple(ends.sent[each.new.sender] for each in self._planned)
        self._remember(state.finished({each.sender: each.place.crc32 for each in sent}))
        return UploadResult(state.upload, sent)

    def _open(self, state: SendState) -> SendState:
        try:
            self._client.open(state.stream, [each.new for each in state.senders], state.label, state.upload)
        except GatewayRefused:
            if self._file is not None:
                self._file.remove()  # there is no such upload: the next command may be another one
            raise
        crash.here(CrashPoint.CLIENT_OPENED)
        opened = replace(state, is_open=True)
        self._remember(opened)
        return opened

    def _remember(self, state: SendState) -> None:
        if self._file is not None:
            self._file.write(state.item())

    def _thread(self, upload: str, sender: str, watcher: Watcher, ends: _Ends) -> threading.Thread:
        def work() -> None:
            try:
                sent = self._client.send(
                    upload,
                    sender,
                    self._sources[sender],
                    zip=self._zip,
                    on_sent=watcher.on_sent,
                    on_wait=watcher.on_wait(sender),
                )
            except BaseException as error:  # told by the thread that waits for us
                with ends.lock:
                    ends.failures.append(error)
                self._client.stop.set()
            else:
                with ends.lock:
                    ends.sent[sender] = sent

        thread = threading.Thread(target=work, name=f"send-{sender}", daemon=True)
        thread.start()
        return thread

    def _wait(self, threads: Sequence[threading.Thread]) -> None:
        """Wait for all threads, in short steps so that Ctrl-C is noticed."""
        try:
            for thread in threads:
                while thread.is_alive():
                    thread.join(JOIN_S)
        except BaseException:
            self._client.stop.set()
            end = time.monotonic() + LAST_WORDS_S  # for all of them: one may wait for an answer
            for thread in threads:
                thread.join(max(0.0, end - time.monotonic()))
            raise

    def _sent_before(self, state: SendState) -> UploadResult:
        """The result of an upload that was sent before; `SourceChanged` when a file is not what was sent."""
        for each in state.senders:
            source = self._sources[each.new.sender]
            if each.crc32 is None or source.crc32(0, each.size or 0, 0) != each.crc32:
                raise SourceChanged(
                    f"{each.file} was sent before as upload {state.upload}, and has changed since; send it as a new "
                    "upload (--new)"
                )
        return UploadResult(state.upload, (), was_sent_before=True)


@dataclass(frozen=True)
class UploadResult:
    """What came of an upload."""

    upload: str
    senders: tuple[Sent, ...]
    was_sent_before: bool = False


@dataclass(frozen=True)
class Watcher:
    """Callbacks for progress; called from several threads."""

    on_sent: OnSent
    on_wait: Callable[[str], Waiting]  # for a sender


class UploadPlan:
    """Senders and what they send. Used as a context manager: files are open in the block."""

    def __init__(
        self,
        wanted: Sequence[FileInput],
        form: str | None,
        columns: Sequence[str] | None,
        stdin: StandardInput | None = None,
    ) -> None:
        if len([each for each in wanted if each.file == STANDARD_INPUT]) > 1:
            raise BadValue("standard input can be sent once")
        self.sources: dict[str, ByteSource] = {}
        self.senders: list[PlannedSender] = []
        self._form, self._columns, self._stdin = form, columns, stdin
        try:
            for each, name in zip(wanted, _names(wanted), strict=True):
                self._add(each, name)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for source in self.sources.values():
            source.close()

    def __enter__(self) -> UploadPlan:
        return self

    def __exit__(self, *ignored: object) -> None:
        self.close()

    @property
    def has_standard_input(self) -> bool:
        return any(each.is_standard_input for each in self.senders)

    def _add(self, wanted: FileInput, sender: str) -> None:
        form = self._form or _form_of(wanted.file)
        header = self._header(wanted.file) if form == CSV else None
        columns, begin, first_line = (header.columns, header.bytes, header.lines + 1) if header else (None, 0, 1)
        source: ByteSource
        if wanted.file == STANDARD_INPUT:
            source, size, file, begin = Spool(self._given_stdin()), None, STANDARD_INPUT, 0
        else:
            source = found = FileSource(wanted.file, begin)
            size, file = found.size, str(Path(wanted.file).absolute())
        new = NewSender(sender, wanted.input, form, columns, first_line)
        self.sources[sender] = source
        self.senders.append(PlannedSender(new, file, begin, size))

    def _header(self, file: str) -> CsvHeader:
        if self._columns is not None:
            return CsvHeader(check_columns(self._columns, "--columns"), 0, 0)
        if file == STANDARD_INPUT:
            return read_header(self._given_stdin().readline, "standard input")
        with open_to_send(Path(file)) as opened:
            return read_header(opened.readline, file)

    def _given_stdin(self) -> StandardInput:
        if self._stdin is None:
            raise BadValue("there is no standard input to send")
        return self._stdin


@dataclass(frozen=True, slots=True)
class FileInput:
    """A file for an input; several may be for the same one."""

    input: str
    file: str


class StandardInput(Readable, Protocol):
    """Standard input: read line by line for a header, then as it comes."""

    def readline(self, size: int | None = -1, /) -> bytes:
        """The next line with its end, or so much of it; nothing at the end."""


@dataclass
class _Ends:
    """How the threads have ended."""

    sent: dict[str, Sent] = field(default_factory=dict)
    failures: list[BaseException] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


def _worst(failures: Sequence[BaseException]) -> BaseException:
    """The failure that made the other senders stop."""
    return next((each for each in failures if not isinstance(each, Stopped)), failures[0])


def _names(wanted: Sequence[FileInput]) -> Iterator[str]:
    """Names of senders: that of the input; the second sender of an input is `name-2`."""
    taken: set[str] = {each.input for each in wanted}
    seen: set[str] = set()
    for each in wanted:
        if each.input not in seen:
            seen.add(each.input)
            yield each.input
        else:
            name = next(f"{each.input}-{n}" for n in itertools.count(2) if f"{each.input}-{n}" not in taken)
            taken.add(name)
            yield name


def _form_of(file: str) -> str:
    found = _BY_NAME.get(Path(file).suffix.lower())
    if found is None:
        shown = "standard input" if file == STANDARD_INPUT else file
        raise BadValue(f"what is {shown}? Say --format {' or --format '.join(FORMS)}")
    return found
