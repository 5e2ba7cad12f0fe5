"""Where a demo puts its things, and how its words for the next steps begin."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from towpath.cli.failures import UsageError, say


@contextlib.contextmanager
def demo_directory(keep: Path | None) -> Iterator[Path]:
    """A directory that stays when the demo was played to its end, for the person to look into."""
    if keep is None:
        directory = Path(tempfile.mkdtemp(prefix="towpath-demo-"))
    else:
        try:
            keep.mkdir(parents=True, exist_ok=True)
            is_empty = not any(keep.iterdir())
        except OSError as error:
            raise UsageError(f"--keep {keep}: {error.strerror}") from error
        if not is_empty:
            raise UsageError(f"--keep {keep}: the directory is not empty")
        directory = keep.absolute()
    try:
        yield directory
    except KeyboardInterrupt:
        if keep is None:
            shutil.rmtree(directory, ignore_errors=True)
        raise
    except BaseException:
        say(f"what was written until then is in {directory}")
        raise


def own_name() -> str:
    """How the person can call this program again: `make demo` runs it where no PATH leads to."""
    program = Path(sys.argv[0])
    if shutil.which("towpath") or program.name != "towpath":
        return "towpath"
    with contextlib.suppress(ValueError):
        program = program.absolute().relative_to(Path.cwd())
    return str(program)
