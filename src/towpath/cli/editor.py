"""Editing a message in a person's own editor."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from towpath.cli.failures import say
from towpath.errors import BadPayload, NotInstalled, Refused
from towpath.exact_json import read_exactly, to_json
from towpath.queue import Message
from towpath.queue.payload import from_json


@contextmanager
def edited(message: Message) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Payload and headers as the person left them. What they typed is kept in a file if the block fails."""
    with edited_parts(read_exactly(message.payload_json), read_exactly(message.headers_json)) as parts:
        yield parts


@contextmanager
def edited_parts(payload: Any, headers: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The same of a message whose parts were read exactly."""
    before = {"payload": payload, "headers": headers}
    with edited_text(f"{to_json(before, indent='  ')}\n".encode()) as after:
        yield _parts(after)


@contextmanager
def edited_text(text: bytes) -> Iterator[bytes]:
    """A text as the person left it. What they typed is kept in a file if the block fails."""
    handle, name = tempfile.mkstemp(prefix="towpath-edit-", suffix=".json")
    file = Path(name)
    os.write(handle, text)
    os.close(handle)
    try:
        _open_editor(file)
        after = file.read_bytes()
        if after == text:
            raise Refused("nothing was changed in the editor, so nothing is written")
        yield after
    except BaseException:
        if file.read_bytes() == text:
            file.unlink()
        else:
            say(f"what you typed is kept in {file}")
        raise
    file.unlink()


def _open_editor(file: Path) -> None:
    command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    try:
        ended = subprocess.run([*command, str(file)], check=False)
    except FileNotFoundError as error:
        raise NotInstalled(f"the editor {command[0]}", "set the variable EDITOR to one that is") from error
    if ended.returncode != 0:
        raise Refused(f"the editor {command[0]} ended with code {ended.returncode}, so nothing is written")


def _parts(after: bytes) -> tuple[Any, dict[str, Any]]:
    try:
        document = from_json(after.decode(), "edited text")
    except UnicodeDecodeError as error:
        raise BadPayload(f"the edited text is not UTF-8: {error}") from error
    match document:
        case {"payload": payload, "headers": dict(headers), **rest} if not rest:
            return payload, headers
    raise BadPayload('the edited text must be {"payload": …, "headers": {…}} and nothing else')
