"""Elasticsearch's programs (and OpenSearch's), unpacked once where the user that runs them can read them."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from pathlib import Path

from towpath.errors import FetchFailed
from towpath.spark.artifacts import ELASTICSEARCH, Report, cache_directory, exclusively, fetch, read_lock, tell_waiting
from towpath.spark.java import Java
from towpath.stack.server import explaining
from towpath.stack.server_user import ServerUser, shared_directory


def install(user: ServerUser, java: Java, report: Report | None, name: str = ELASTICSEARCH) -> Path:
    """The directory with its programs, after fetching and unpacking what is not there yet."""
    packed = read_lock(name)[0]
    archive = fetch(name, java, report) / packed.file_name
    place = _place(user) / f"{name}-{packed.sha256[:12]}"
    alone = exclusively(place.with_suffix(".lock"), lambda: tell_waiting(name, report))
    with explaining(name, place), alone, zipfile.ZipFile(archive) as files:
        if not _is_complete(place, files):
            if not packed.fits(archive):
                archive.unlink()
                raise FetchFailed(f"{archive} was damaged and is deleted; run the same command again to fetch it anew")
            _unpack(files, place)
    return place / f"{name}-{packed.coordinates.revision}"


def _place(user: ServerUser) -> Path:
    cache = cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    return cache if user.reaches(cache) else shared_directory()


def _is_complete(place: Path, files: zipfile.ZipFile) -> bool:
    """Whether every file is there in its size: cleaners of temporary directories take what looks old."""
    try:
        return all((place / it.filename).stat().st_size == it.file_size for it in files.infolist() if not it.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return False


def _unpack(files: zipfile.ZipFile, place: Path) -> None:
    aside = Path(tempfile.mkdtemp(dir=place.parent, prefix=f".{place.name}-"))
    try:
        files.extractall(aside)
        _open_to_all(aside)
        shutil.rmtree(place, ignore_errors=True)
        aside.rename(place)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _open_to_all(root: Path) -> None:
    for path in (root, *root.rglob("*")):
        is_program = path.is_dir() or path.parent.name == "bin"
        path.chmod(0o755 if is_program else 0o644)
