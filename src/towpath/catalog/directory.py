"""Data sets that are directories: made so that they are known again, removed so that nothing else ever is."""

from __future__ import annotations

import shutil
from pathlib import Path

from towpath.errors import BadValue

SCHEME = "file"
MARKER = ".data-set"


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
