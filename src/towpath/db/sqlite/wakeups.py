"""Wake-ups between processes on one machine: a Unix datagram socket for each process that waits.

The sockets of a database stand in a directory of their own under the system's temporary directory, because a socket's
path may not be longer than about 100 bytes, which a database's path easily is. Only processes of the same user can
ring each other; others are found by the slow poll.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import socket
import stat
import tempfile
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from uuid import uuid4

from towpath.db.wakeups import LocalWakeups, Wakeup

logger = logging.getLogger(__name__)

# The kernel keeps about ten datagrams for a slow reader and drops the rest: after a burst of this many, one may be
# missing, and everybody is woken.
BURST = 8
# A directory's time stamp moves in steps of the kernel's tick: one that is younger than this may hide a later change.
SETTLED_NS = 100_000_000
# Looking at the directory costs as much as a tenth of a send, so a sender looks once in a while.
TRUSTED_S = 0.001
SUFFIX = ".bell"


class SqliteWakeups:
    """Rings by datagram. Listening starts with the first bell that is hung."""

    def __init__(self, database: Path) -> None:
        self._directory = _directory_for(database)
        self._local = LocalWakeups()
        self._lock = threading.Lock()
        self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sender.setblocking(False)
        self._own: Path | None = None
        self._pid = -1
        self._receiver: socket.socket | None = None
        self._others: tuple[str, ...] = ()
        self._seen_ns = -1
        self._trusted_until = 0.0

    def hang(self, name: str) -> Wakeup:
        wakeup = self._local.hang(name)
        with self._lock:
            if self._receiver is None:
                self._listen()
        return wakeup

    def take_down(self, name: str, wakeup: Wakeup) -> None:
        self._local.take_down(name, wakeup)

    def ring(self, names: Iterable[str]) -> None:
        for name in names:
            self._local.ring(name)
            for path in self._other_sockets():
                self._send(name.encode(), path)

    def close(self) -> None:
        with self._lock:
            if self._receiver is not None and self._own is not None and self._pid == os.getpid():
                own, self._own = self._own, None
                self._send(b"", str(own))  # wakes the listener, which then sees that it has no address any more
                with contextlib.suppress(FileNotFoundError):
                    own.unlink()
                self._receiver = None
            self._sender.close()  # a ring from now on is lost, as it would be in the next moment anyway

    def _listen(self) -> None:
        try:
            for directory in (self._directory.parent, self._directory):
                directory.mkdir(mode=0o700, exist_ok=True)
            if not self._is_ours():
                raise PermissionError(f"{self._directory} is not a directory of this user alone")
            own = self._directory / f"{uuid4().hex[:12]}{SUFFIX}"
            receiver = _bound(own)
        except OSError as error:
            logger.warning("wake-ups are off, inboxes poll: %s", error)
            return
        self._own, self._receiver, self._pid = own, receiver, os.getpid()
        time.sleep(TRUSTED_S)  # from here on every sender has seen the new socket
        threading.Thread(target=self._receive, args=(own, receiver), name="bells", daemon=True).start()

    def _is_ours(self) -> bool:
        """Whether only this user can write into the directory, which stands where every user may write."""
        for directory in (self._directory.parent, self._directory):
            found = os.lstat(directory)
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
                return False
        return True

    def _receive(self, own: Path, receiver: socket.socket) -> None:
        with receiver:
            while self._own == own:
                receiver.settimeout(None)
                names = {receiver.recv(4096)}
                receiver.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    for _ in range(BURST):
                        names.add(receiver.recv(4096))
                    self._local.ring_all()
                for name in names:
                    self._local.ring(name.decode(errors="replace"))

    def _other_sockets(self) -> tuple[str, ...]:
        monotonic = time.monotonic()
        if monotonic < self._trusted_until:
            return self._others
        self._trusted_until = monotonic + TRUSTED_S
        try:
            changed_ns = os.stat(self._directory).st_mtime_ns
            if changed_ns != self._seen_ns:
                self._others = self._sockets() if self._is_ours() else ()
                settled = time.time_ns() - changed_ns > SETTLED_NS
                self._seen_ns = changed_ns if settled else -1
        except OSError:
            self._others = ()  # nobody listens yet, or nobody can
        return self._others

    def _sockets(self) -> tuple[str, ...]:
        own = str(self._own)
        with os.scandir(self._directory) as entries:
            return tuple(entry.path for entry in entries if entry.path != own and _is_socket(entry))

    def _send(self, name: bytes, path: str) -> None:
        try:
            self._sender.sendto(name, path)
        except BlockingIOError:
            pass  # it has not read its last rings yet, so it is awake
        except ConnectionRefusedError:
            with contextlib.suppress(OSError):
                os.unlink(path)  # its process is gone
        except OSError:
            pass  # gone in this moment; the slow poll is there for the rest


def _is_socket(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.name.endswith(SUFFIX) and stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False  # its process has ended since the directory was listed


def _directory_for(database: Path) -> Path:
    key = hashlib.sha256(os.fsencode(database.resolve())).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"towpath-{os.getuid()}" / key


def _bound(path: Path) -> socket.socket:
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        receiver.bind(str(path))
    except OSError:
        receiver.close()
        raise
    return receiver
