"""The peers' own environment, made on first use."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

from bench.page import ROOT

HOME = ROOT / ".venv-bench"
PEERS = Path(__file__).with_name("peers.txt")


def peers_python() -> Path:
    """The interpreter that has the peers; installs them when `peers.txt` has changed."""
    stamp = HOME / "peers.sha256"
    wanted = hashlib.sha256(PEERS.read_bytes()).hexdigest()
    python = HOME / "bin" / "python"
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"making {HOME.name} with the peers of {PEERS.relative_to(ROOT)} (once)", flush=True)
    shutil.rmtree(HOME, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", HOME], check=True)
    # The directory looks after itself: no other file has to know that it must not be committed.
    (HOME / ".gitignore").write_text("*\n")
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(PEERS)]
    subprocess.run(install, check=True)
    stamp.write_text(wanted)
    print("peers are installed", flush=True)
    return python


def peer_versions() -> dict[str, str]:
    """Name and version of each peer as pinned."""
    pins = [line.split("==") for line in PEERS.read_text().splitlines() if "==" in line]
    return {name.split("[")[0]: version for name, version in pins}


def towpath_version() -> str:
    """The version of Towpath that is measured."""
    return distribution("towpath").version
