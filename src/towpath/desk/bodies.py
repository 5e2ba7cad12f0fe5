"""Where the body of an error record goes: into a row, or into a file when it is too large for one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from towpath import crash
from towpath.crash import CrashPoint
from towpath.desk.blobs import Blobs
from towpath.desk.told import Told


class Kept(NamedTuple):
    """A body that is a file; or that is lost, because the file that the flow had put it into is not there."""

    blob: str | None
    size: int


class Bodies:
    """Puts large bodies away before anything names them."""

    def __init__(self, blobs: Blobs, flow_blobs: Callable[[str], Path], large_bytes: int) -> None:
        """`flow_blobs` says where a flow puts what is too large for its error topic."""
        self._blobs = blobs
        self._flow_blobs = flow_blobs
        self._large_bytes = large_bytes

    @contextmanager
    def kept(self, told: Iterable[Told]) -> Iterator[dict[str, Kept]]:
        """The large ones by the id of their case. Nothing of it is swept up until the block ends."""
        large = [each for each in told if each.blob is not None or len(each.record.value or b"") > self._large_bytes]
        if not large:
            yield {}
            return
        with self._blobs.held():
            kept = {each.case_id: self._keep(each) for each in large}
            crash.here(CrashPoint.DESK_BODIES_KEPT)
            yield kept

    def _keep(self, told: Told) -> Kept:
        value = told.record.value or b""
        if told.blob is None:
            return Kept(self._blobs.keep(value), len(value))
        if not self._blobs.adopt(told.blob, self._flow_blobs(told.flow)):
            return Kept(None, 0)
        return Kept(told.blob, self._blobs.size(told.blob))
