"""Reads what a log writer has written, from the oldest file to the newest, as lines, and goes on while it writes."""

from __future__ import annotations

import codecs
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

LONGEST_LINE = 64 << 10
CHUNK = 64 << 10
POLL_S = 0.1


class LogReader:
    """One reading of a log. Files are held open, so that it does not matter what they are called by now."""

    def __init__(self, path: Path, files: int) -> None:
        self._path = path
        self._count = files
        self._open = self._files()

    def lines(self, tail: int | None, is_over: Callable[[], bool]) -> Iterator[str]:
        """The last lines, or all that there are; then those that come, until it is over."""
        try:
            if tail is not None:
                self._go_to_last(tail)
            lines = LineSplitter()
            while True:
                was_over = is_over()  # asked first: all that was written until then is read
                for data in iter(self._read, b""):
                    yield from lines.feed(data)
                if was_over:
                    break
                time.sleep(POLL_S)
            yield from lines.end()
        finally:
            _close(self._open)

    def _read(self) -> bytes:
        """The next bytes; none when there are no more by now."""
        while self._open:
            if data := self._open[0].read(CHUNK):
                return data
            if len(self._open) == 1:
                self._open += self._newer_than(self._open[0])
                if len(self._open) == 1:
                    return b""
                if data := self._open[0].read(CHUNK):  # the last that was written before there was a newer one
                    return data
            self._open.pop(0).close()
        self._open = self._files()
        return self._open[0].read(CHUNK) if self._open else b""

    def _newer_than(self, file: BinaryIO) -> list[BinaryIO]:
        number = _number(file)
        with suppress(FileNotFoundError):
            if self._path.stat().st_ino == number:
                return []
        files = self._files()
        place = next((place for place, each in enumerate(files) if _number(each) == number), -1)
        _close(files[: place + 1])
        return files[place + 1 :]

    def _files(self) -> list[BinaryIO]:
        """The oldest first. Opened the newest first: one that is renamed meanwhile is met twice, and none is missed."""
        found: dict[int, BinaryIO] = {}
        names = [self._path.name, *(f"{self._path.name}.{number}" for number in range(1, self._count))]
        for name in names:
            with suppress(FileNotFoundError):
                file = self._path.with_name(name).open("rb")
                if found.setdefault(_number(file), file) is not file:
                    file.close()
        return list(reversed(found.values()))

    def _go_to_last(self, count: int) -> None:
        """To where the last lines begin; to the beginning when there are fewer."""
        files, self._open = self._open, []
        wanted = count + (1 if _ends_a_line(files) else 0)
        while files:
            file = files.pop()
            self._open.insert(0, file)
            wanted -= _seek_line(file, wanted)
            if wanted <= 0:
                break
        _close(files)


def _seek_line(file: BinaryIO, wanted: int) -> int:
    """Go behind the wanted end of a line, counted from the end, or to the beginning; how many were found."""
    place = file.seek(0, os.SEEK_END)
    found = 0
    while place > 0 and found < wanted:
        start = max(0, place - CHUNK)
        file.seek(start)
        block = file.read(place - start)
        found += (ends := block.count(b"\n"))
        place = start
        if found >= wanted:
            for _ in range(ends - (found - wanted) - 1):
                block = block[: block.rindex(b"\n")]
            place, found = start + block.rindex(b"\n") + 1, wanted
    file.seek(place)
    return found


def _ends_a_line(files: list[BinaryIO]) -> bool:
    for file in reversed(files):
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"
    return False


def _number(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_ino


def _close(files: list[BinaryIO]) -> None:
    for file in files:
        file.close()


class LineSplitter:
    """Cuts what it is fed into lines; those that are very long into pieces."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._rest = ""

    def feed(self, data: bytes) -> Iterator[str]:
        *whole, self._rest = (self._rest + self._decoder.decode(data)).split("\n")
        for line in whole:
            yield from _pieces(line.removesuffix("\r"))
        while len(self._rest) > LONGEST_LINE:
            yield self._rest[:LONGEST_LINE]
            self._rest = self._rest[LONGEST_LINE:]

    def end(self) -> Iterator[str]:
        """What came after the last end of a line."""
        self._rest += self._decoder.decode(b"", final=True)
        if self._rest:
            yield from _pieces(self._rest)
            self._rest = ""


def _pieces(line: str) -> Iterator[str]:
    yield line[:LONGEST_LINE]
    for start in range(LONGEST_LINE, len(line), LONGEST_LINE):
        yield line[start : start + LONGEST_LINE]
