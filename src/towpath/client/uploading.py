"""A whole upload: its state file, all of its senders at once, and how it goes on after anything."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from towpath import crash
from towpath.client.client import Client
from towpath.client.patience import Stopped, Waiting
from towpath.client.send_state import PlannedSender, SendState
from towpath.client.sending import OnSent, Sent
from towpath.client.source import Source
from towpath.client.state_file import StateFile
from towpath.crash import CrashPoint
from towpath.errors import GatewayRefused, SourceChanged

JOIN_S = 0.2
LAST_WORDS_S = 2.0


@dataclass(frozen=True)
class Watcher:
    """Who is told how it goes; from several threads."""

    on_sent: OnSent
    on_wait: Callable[[str], Waiting]  # for a sender


@dataclass(frozen=True)
class Uploaded:
    """What came of it."""

    upload: str
    senders: tuple[Sent, ...]
    was_sent_before: bool = False


@dataclass
class _Ends:
    """How the threads have ended."""

    sent: dict[str, Sent] = field(default_factory=dict)
    failures: list[BaseException] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Uploading:
    """Sends what is planned. Without a state file it cannot be gone on with by another process."""

    def __init__(
        self,
        client: Client,
        stream: str,
        planned: Sequence[PlannedSender],
        sources: Mapping[str, Source],
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
                state = state.at(self._client.server)
                self._remember(state)
        return state if state.is_open else self._open(state)

    def run(self, state: SendState, watcher: Watcher) -> Uploaded:
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
        return Uploaded(state.upload, sent)

    def _open(self, state: SendState) -> SendState:
        try:
            self._client.open(state.stream, [each.new for each in state.senders], state.label, state.upload)
        except GatewayRefused:
            if self._file is not None:
                self._file.remove()  # there is no such upload: the next command may be another one
            raise
        crash.here(CrashPoint.CLIENT_OPENED)
        opened = state.opened()
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
        """In short waits, so that Ctrl-C is heard."""
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

    def _sent_before(self, state: SendState) -> Uploaded:
        """Nothing to do, if it is still the same that was sent."""
        for each in state.senders:
            source = self._sources[each.new.sender]
            if each.crc32 is None or source.crc32(0, each.size or 0, 0) != each.crc32:
                raise SourceChanged(
                    f"{each.file} was sent before as upload {state.upload}, and has changed since; send it as a new "
                    "upload (--new)"
                )
        return Uploaded(state.upload, (), was_sent_before=True)


def _worst(failures: Sequence[BaseException]) -> BaseException:
    """The one that made the others stop."""
    return next((each for each in failures if not isinstance(each, Stopped)), failures[0])
