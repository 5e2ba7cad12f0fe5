"""What a node of Elasticsearch and one of OpenSearch have in common: both come from the same code."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from towpath.errors import ServerFailed
from towpath.spark.artifacts import Report, read_lock
from towpath.stack.elasticsearch_home import install
from towpath.stack.java_server import JavaServer
from towpath.stack.json_answer import ask
from towpath.stack.ports import HOST
from towpath.stack.server import SettingsSections
from towpath.stack.server_user import server_user


class SearchNode(JavaServer):
    """One node on 127.0.0.1. As root it runs as an ordinary user. `name` is also that of its artifacts."""

    start_timeout_s = 180.0
    settings_file: str
    copied: tuple[str, ...]  # from the distribution's own configuration
    directories: tuple[str, ...] = ("config", "data", "logs", "tmp")

    def __init__(
        self, data_dir: Path, port: int | None = None, settings: Mapping[str, str] | None = None, java_home: str = ""
    ) -> None:
        super().__init__(data_dir, server_user(), port, settings, java_home)
        self._home: Path | None = None
        self._config = self.data_dir / "config"

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def settings(self) -> SettingsSections:
        return {}  # flows name their index by its address

    @property
    def version(self) -> str:
        return read_lock(self.name)[0].coordinates.revision

    def is_healthy(self) -> bool:
        status = ask(f"{self.url}/_cluster/health").get("status")
        # Yellow is as good as it gets: replicas have no second node to go to.
        return self.is_running and status in ("yellow", "green")

    def prepare(self, report: Report | None = None) -> None:
        if not self.is_running:
            self._home = install(self._user, self._java, report, self.name)

    def _set_up(self) -> None:
        if self._home is None:
            self.prepare()
        home = self._require_home()
        for name in self.directories:
            path = self.data_dir / name
            path.mkdir(mode=0o700, exist_ok=True)
            self._user.own(path)
        for name in self.copied:
            shutil.copyfile(home / "config" / name, self._config / name)
        self._write_options()
        lines = (f"{key}: {json.dumps(value)}\n" for key, value in self._values().items())
        (self._config / self.settings_file).write_text("".join(lines), encoding="utf-8")
        self._user.own(*self._config.rglob("*"))

    def _write_options(self) -> None:
        """What else stands in the configuration."""

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
            # A disk that is fuller than it likes makes indices read-only, which on a laptop is most disks.
            "cluster.routing.allocation.disk.threshold_enabled": "false",
            **self._own_settings,
        }

    def _port_of_running(self) -> int:
        config = self._config / self.settings_file
        found = re.search(r'^http\.port: "(\d+)"', config.read_text(), re.MULTILINE)
        if found is None:
            raise ServerFailed(f"{self.name} runs, but {config} does not say on which port")
        return int(found[1])

    def _require_home(self) -> Path:
        if self._home is None:
            raise ServerFailed(f"{self.name} has not been prepared")
        return self._home
