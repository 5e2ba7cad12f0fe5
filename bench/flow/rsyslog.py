"""rsyslog with its modules for Kafka and Elasticsearch: Debian's packages, unpacked in the cache, not installed."""

from __future__ import annotations

import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.page import ROOT

HOME = ROOT / ".cache" / "bench" / "rsyslog"
PACKAGES = (
    *("rsyslog", "rsyslog-kafka", "rsyslog-elasticsearch"),
    *("libestr0", "libfastjson4", "liblognorm5", "librdkafka1", "libcurl4"),
)


@dataclass(frozen=True)
class Rsyslog:
    """Where it stands."""

    root: Path

    @property
    def program(self) -> Path:
        return self.root / "usr" / "sbin" / "rsyslogd"

    @property
    def libraries(self) -> Path:
        return self.root / "usr" / "lib" / f"{platform.machine()}-linux-gnu"

    @property
    def version(self) -> str:
        said = subprocess.run([self.program, "-v"], env=self.environment, capture_output=True, text=True, check=True)
        return said.stdout.split()[1]

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_LIBRARY_PATH": str(self.libraries)}


def fetched() -> Rsyslog:
    """Fetches the packages once; `RuntimeError` where there is no Debian to fetch them from."""
    root = HOME / "root"
    made = Rsyslog(root)
    if made.program.exists():
        return made
    if shutil.which("apt-get") is None:
        raise RuntimeError("rsyslog comes from Debian's packages, and there is no apt-get here")
    print(f"fetching {', '.join(PACKAGES[:3])} (once)", flush=True)
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir(parents=True)
    subprocess.run(["apt-get", "download", "-q", *PACKAGES], cwd=HOME, check=True, capture_output=True)
    for package in sorted(HOME.glob("*.deb")):
        subprocess.run(["dpkg", "-x", package, root], check=True)
    return made
