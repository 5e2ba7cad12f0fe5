"""Data sets that are directories: made so that they are known again, removed and read so that nothing else ever is.

Whoever made the directory may have put links into it, and may change it while it is read. So no link is followed, and
a file is opened part by part from its directory on: what a name stood for a moment ago does not matter.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

from towpath.catalog.data_sets.store import DataSet
from towpath.errors import BadValue, UnknownFile

SCHEME = "file"
MARKER = ".data-set"
MOST_FILES = 1_000
MOST_LOOKED_AT = 10_000
DEEPEST = 20


def place_of(directory: Path) -> str:
    """How the row of a data set names its directory."""
    return f"{SCHEME}:{directory.absolute()}"


def directory_of(place: str) -> Path:
    """The directory that a place names; raises `BadValue` for another kind of place."""
    scheme, _, path = place.partition(":")
    if scheme != SCHEME or not Path(path).is_absolute():
        raise BadValue(f"{place} is no directory of a data set; one is written {SCHEME}:/an/absolute/path")
    return Path(path)


def make_directory(place: str, id: str) -> Path:
    """The directory of a data set, with a file in it that says whose it is. Making it again does no harm."""
    directory = directory_of(place)
    directory.mkdir(parents=True, exist_ok=True)
    if owner_of(directory) == id:
        return directory
    unfinished = directory / f"{MARKER}.{id}"
    if any(each != unfinished for each in directory.iterdir()):
        raise BadValue(f"{directory} holds something else than data set {id}; choose a directory of its own")
    unfinished.write_text(f"{id}\n", encoding="ascii")
    unfinished.replace(directory / MARKER)
    return directory


def remove_directory(place: str, id: str) -> None:
    """Remove all of it, also what an earlier attempt has left; `BadValue` when it is not this data set's."""
    directory = directory_of(place)
    doomed = directory.with_name(f".{directory.name}.{id}.deleting")
    if doomed.exists():
        shutil.rmtree(doomed)
    if not directory.exists():
        return
    unfinished = directory / f"{MARKER}.{id}"
    if owner_of(directory) != id and any(each != unfinished for each in directory.iterdir()):
        raise BadValue(
            f"{directory} does not say that it is data set {id} (in its file {MARKER}); "
            "look at what it is, and remove it by hand"
        )
    directory.replace(doomed)  # at once: what is left of it is never taken for the whole
    shutil.rmtree(doomed)


def owner_of(directory: Path) -> str | None:
    """The id of the data set that it says it is."""
    try:
        return (directory / MARKER).read_text(encoding="ascii").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        return None


def list_files(found: DataSet, most: int = MOST_FILES) -> Listing:
    """The plain files of a data set; raises `BadValue` when they cannot be had here."""
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
    """A file of a data set, with its size; `UnknownFile` for what is no plain file of it, `BadValue` as above."""
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


class File(NamedTuple):
    """A file of a data set; its path begins at the directory."""

    path: str
    bytes: int


class Listing(NamedTuple):
    """The first files of a data set, by their paths."""

    files: list[File]
    has_more: bool


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
    """Files by their names; None for everything else, so that the caller can count and stop."""
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
