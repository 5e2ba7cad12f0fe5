"""From what a person names to what is sent: files, their forms and columns, and who sends them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from towpath.client.csv_header import CsvHeader, check_columns, read_header
from towpath.client.file_source import FileSource, open_to_send
from towpath.client.send_state import PlannedSender
from towpath.client.source import Source
from towpath.client.spool import Readable, Spool
from towpath.client.told import NewSender
from towpath.errors import BadValue

STANDARD_INPUT = "-"
CSV, JSON_LINES = "csv", "jsonl"
FORMS = (CSV, JSON_LINES)
_BY_NAME = {".csv": CSV, ".jsonl": JSON_LINES, ".ndjson": JSON_LINES, ".json": JSON_LINES}


class StandardInput(Readable, Protocol):
    """What is read as it comes, and line by line as long as there is a header."""

    def readline(self, size: int | None = -1, /) -> bytes:
        """The next line with its end, or so much of it; nothing at the end."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file for an input; several may be for the same one."""

    input: str
    file: str


class Plan:
    """Senders and what they send. Used as a context manager: files are open in the block."""

    def __init__(
        self,
        wanted: Sequence[Wanted],
        form: str | None,
        columns: Sequence[str] | None,
        stdin: StandardInput | None = None,
    ) -> None:
        if len([each for each in wanted if each.file == STANDARD_INPUT]) > 1:
            raise BadValue("standard input can be sent once")
        self.sources: dict[str, Source] = {}
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

    def __enter__(self) -> Plan:
        return self

    def __exit__(self, *ignored: object) -> None:
        self.close()

    @property
    def has_standard_input(self) -> bool:
        return any(each.is_standard_input for each in self.senders)

    def _add(self, wanted: Wanted, sender: str) -> None:
        form = self._form or _form_of(wanted.file)
        header = self._header(wanted.file) if form == CSV else None
        columns, begin, first_line = (header.columns, header.bytes, header.lines + 1) if header else (None, 0, 1)
        source: Source
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


def _names(wanted: Sequence[Wanted]) -> Iterator[str]:
    """The input's name; the second sender of one is `name-2`."""
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
