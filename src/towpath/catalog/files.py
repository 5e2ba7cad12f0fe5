"""The files of a data set that is a directory: listed and opened, and never anything outside of it.

Whoever made the directory may have put links into it, and may change it while it is read. So no link is followed, and
a file is opened part by part from its directory on: what a name stood for a moment ago does not matter.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

from towpath.catalog.data_set import DataSet
from towpath.catalog.directory import MARKER, directory_of, owner_of
from towpath.errors import BadValue, UnknownFile

MOST_FILES = 1_000
MOST_LOOKED_AT = 10_000
DEEPEST = 20


class File(NamedTuple):
    """One of them; its path begins at the directory."""

    path: str
    bytes: int


class Listing(NamedTuple):
    """The first of them, by their paths."""

    files: list[File]
    has_more: bool


def list_files(found: DataSet, most: int = MOST_FILES) -> Listing:
    """Plain files; raises `BadValue` when there are none to be had here."""
    files: list[File] = []
    for looked_at, each in enumerate(_walk(_home(found), "", DEEPEST)):
        if len(files) > most or looked_at >= MOST_LOOKED_AT:
            break
        if each is not None:
            files.append(each)
    else:
        return Listing(files, False)
    return Listing(files[:most], True)


def open_file(found: DataSet, path: str) -> tuple[BinaryIO, int]:
    """One of them with its size; raises `UnknownFile` for what is no plain file of it, `BadValue` as above."""
    home, parts = _home(found), path.split("/")
    if any(part in ("", ".", "..") or "\x00" in part for part in parts) or parts[0].startswith(MARKER):
        raise UnknownFile(found.id, path)
    try:
        with ExitStack() as opened:
            at = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
            opened.callback(os.close, at)
            for part in parts[:-1]:
                at = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
                opened.callback(os.close, at)
            file = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
    except (OSError, ValueError):
        raise UnknownFile(found.id, path) from None
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        os.close(file)
        raise UnknownFile(found.id, path)
    return os.fdopen(file, "rb"), status.st_size


def _home(found: DataSet) -> Path:
    """Its directory, if it says whose it is."""
    if not found.is_ready:
        raise BadValue(f"it is {found.state}: only what is ready can be fetched")
    directory = directory_of(found.place)
    if not directory.is_dir():
        raise BadValue(f"{directory} is not on this machine")
    if owner_of(directory) != found.id:
        raise BadValue(f"{directory} does not say that it is this data set (in its file {MARKER})")
    return directory


def _walk(directory: Path | str, above: str, depth: int) -> Iterator[File | None]:
    """Files by their names; None for what is not one, so that whoever counts can stop."""
    try:
        with os.scandir(directory) as found:
            entries = sorted(islice(found, MOST_LOOKED_AT), key=lambda each: each.name)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EACCES, errno.ENOTDIR):
            raise
        return  # it was removed meanwhile, or is not for us
    for each in entries:
        path = f"{above}{each.name}"
        is_ours = not above and each.name.startswith(MARKER)
        if is_ours or each.is_symlink() or not _is_text(each.name):
            yield None
        elif each.is_dir(follow_symlinks=False):
            yield None
            if depth:
                yield from _walk(each.path, f"{path}/", depth - 1)
        elif each.is_file(follow_symlinks=False):
            yield _file(each, path)


def _is_text(name: str) -> bool:
    """Names of files are bytes; what is no text, or steers a terminal, cannot be shown or asked for."""
    return name.isprintable()


def _file(entry: os.DirEntry[str], path: str) -> File | None:
    try:
        return File(path, entry.stat(follow_symlinks=False).st_size)
    except FileNotFoundError:
        return None
