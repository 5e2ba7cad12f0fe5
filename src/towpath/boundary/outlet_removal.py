"""Removing what was kept for an upload that has ended. Harmless twice."""

from __future__ import annotations

import shutil
from pathlib import Path

from towpath import crash
from towpath.crash import CrashPoint


def remove_upload(root: Path, upload: str) -> bool:
    """Whether there was something. What cannot be removed now is left for the next time."""
    directory = root / upload
    if not directory.is_dir():
        return False
    shutil.rmtree(directory, ignore_errors=True)
    crash.here(CrashPoint.UPLOAD_FILES_REMOVED)
    return True
