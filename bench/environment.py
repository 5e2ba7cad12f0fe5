"""Environments of the peers' own, made on first use. They are never dependencies of Towpath."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

from bench.page import ROOT


@dataclass(frozen=True)
class Environment:
    """One virtual environment, with what a file of pins names."""

    home: Path
    pins: Path

    @property
    def python(self) -> Path:
        """The interpreter that has the peers; installs them when the pins have changed."""
        self._make()
        return self.home / "bin" / "python"

    @property
    def packages(self) -> Path:
        """Where the packages of the peers stand."""
        self._make()
        [found] = self.home.glob("lib/python*/site-packages")
        return found

    @property
    def versions(self) -> dict[str, str]:
        """Name and version of each peer as pinned."""
        pins = [line.split("==") for line in self.pins.read_text().splitlines() if "==" in line]
        return {name.split("[")[0]: version for name, version in pins}

    def _make(self) -> None:
        stamp = self.home / "peers.sha256"
        wanted = hashlib.sha256(self.pins.read_bytes()).hexdigest()
        if stamp.exists() and stamp.read_text() == wanted:
            return
        print(f"making {self.home.name} with the peers of {self.pins.relative_to(ROOT)} (once)", flush=True)
        shutil.rmtree(self.home, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", self.home], check=True)
        # The directory looks after itself: no other file has to know that it must not be committed.
        (self.home / ".gitignore").write_text("*\n")
        python = self.home / "bin" / "python"
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(self.pins)]
        subprocess.run(install, check=True)
        stamp.write_text(wanted)
        print("peers are installed", flush=True)


def towpath_version() -> str:
    """The version of Towpath that is measured."""
    return distribution("towpath").version
