"""An OpenSearch node for a test, gone when it ends. `towpath stack` has none: it is here to hold the index sink to it.

As of Elasticsearch, the minimal distribution is the only one in a registry for Java libraries.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from towpath.errors import ServerFailed
from towpath.spark.artifacts import OPENSEARCH, Report, read_lock
from towpath.stack.elasticsearch_home import install
from towpath.stack.java_server import JavaServer, environment
from towpath.stack.json_answer import ask
from towpath.stack.ports import HOST
from towpath.stack.server import SettingsSections
from towpath.stack.server_user import server_user

SETTINGS = "opensearch.yml"
OPTIONS = ("-Xms512m", "-Xmx512m", "-XX:+UseSerialGC", "-Djava.security.manager=allow")


@contextmanager
def opensearch_server() -> Iterator[OpenSearchServer]:
    """A running OpenSearch node without indices."""
    home = Path(tempfile.mkdtemp(prefix="towpath-"))
    home.chmod(0o711)  # as root it runs as another user, who must be able to enter the directory
    try:
        with OpenSearchServer(home / OPENSEARCH) as server:
            yield server
    finally:
        shutil.rmtree(home, ignore_errors=True)


class OpenSearchServer(JavaServer):
    """Starts, stops and crashes one OpenSearch node on 127.0.0.1; as root it runs as an ordinary user."""

    name = OPENSEARCH
    start_timeout_s = 180.0

    def __init__(self, data_dir: Path, port: int | None = None, java_home: str = "") -> None:
        super().__init__(data_dir, server_user(), port, None, java_home)
        self._home: Path | None = None
        self._config = self.data_dir / "config"

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def settings(self) -> SettingsSections:
        return {}

    @property
    def version(self) -> str:
        return read_lock(OPENSEARCH)[0].coordinates.revision

    def is_healthy(self) -> bool:
        return self.is_running and ask(f"{self.url}/_cluster/health").get("status") in ("yellow", "green")

    def prepare(self, report: Report | None = None) -> None:
        if not self.is_running:
            self._home = install(self._user, self._java, report, OPENSEARCH)

    def _set_up(self) -> None:
        home = self._require_home()
        for path in (self._config, self.data_dir / "data", self.data_dir / "logs", self.data_dir / "tmp"):
            path.mkdir(mode=0o700, exist_ok=True)
            self._user.own(path)
        shutil.copyfile(home / "config" / "log4j2.properties", self._config / "log4j2.properties")
        lines = (f"{key}: {json.dumps(value)}\n" for key, value in self._values().items())
        (self._config / SETTINGS).write_text("".join(lines), encoding="utf-8")
        self._user.own(*self._config.rglob("*"))

    def _values(self) -> dict[str, str]:
        return {
            "cluster.name": "towpath",
            "node.name": "towpath",
            "path.data": str(self.data_dir / "data"),
            "path.logs": str(self.data_dir / "logs"),
            "network.host": HOST,
            "http.port": str(self.port),
            "transport.port": "0",
            "discovery.type": "single-node",
            "cluster.routing.allocation.disk.threshold_enabled": "false",
        }

    def _command(self) -> list[str]:
        """What its start script runs in the end."""
        home = self._require_home()
        properties = {
            "opensearch.path.home": home,
            "opensearch.path.conf": self._config,
            "opensearch.distribution.type": "zip",
            "opensearch.bundled_jdk": "false",
            "java.io.tmpdir": self.data_dir / "tmp",
            "io.netty.noUnsafe": "true",
            "log4j2.disable.jmx": "true",
            "log4j.shutdownHookEnabled": "false",
        }
        options = [*OPTIONS, *(f"-D{key}={value}" for key, value in properties.items())]
        return [str(self._java.program), *options, "-cp", f"{home}/lib/*", "org.opensearch.bootstrap.OpenSearch"]

    def _environment(self) -> dict[str, str]:
        return environment(self._java, HOME=str(self.data_dir))

    def _port_of_running(self) -> int:
        found = re.search(r'^http\.port: "(\d+)"', (self._config / SETTINGS).read_text(), re.MULTILINE)
        if found is None:
            raise ServerFailed(f"opensearch runs, but {self._config / SETTINGS} does not say on which port")
        return int(found[1])

    def _require_home(self) -> Path:
        if self._home is None:
            raise ServerFailed("opensearch has not been prepared")
        return self._home
