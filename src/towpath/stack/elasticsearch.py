"""An Elasticsearch node of our own.

It is the minimal distribution, the only one in a registry for Java libraries: index, bulk, search, count and refresh
work; the root address, which some clients ask first, answers 405.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from towpath.errors import ServerFailed
from towpath.spark.artifacts import ELASTICSEARCH, Report, read_lock
from towpath.stack.elasticsearch_home import install
from towpath.stack.java_server import JavaServer, environment
from towpath.stack.json_answer import ask
from towpath.stack.ports import HOST
from towpath.stack.server import SettingsSections
from towpath.stack.server_user import server_user

HEAP = ("-Xms512m", "-Xmx512m")


class ElasticsearchServer(JavaServer):
    """Starts, stops and crashes one Elasticsearch node on 127.0.0.1.

    As root it runs as an ordinary user; when that user cannot reach `data_dir`, the data live below the temporary
    directory instead and `data_dir` says where. `settings` overrule those in `elasticsearch.yml`.
    """

    name = "elasticsearch"
    start_timeout_s = 180.0

    def __init__(
        self,
        data_dir: Path,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        java_home: str = "",
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
        return read_lock(ELASTICSEARCH)[0].coordinates.revision

    def is_healthy(self) -> bool:
        status = ask(f"{self.url}/_cluster/health").get("status")
        # Yellow is as good as it gets: replicas have no second node to go to.
        return self.is_running and status in ("yellow", "green")

    def prepare(self, report: Report | None = None) -> None:
        if not self.is_running:
            self._home = install(self._user, self._java, report)

    def _set_up(self) -> None:
        if self._home is None:
            self.prepare()
        home = self._require_home()
        for path in (
            self._config,
            self._config / "jvm.options.d",
            self.data_dir / "data",
            self.data_dir / "logs",
            self.data_dir / "tmp",
        ):
            path.mkdir(mode=0o700, exist_ok=True)
            self._user.own(path)
        for name in ("jvm.options", "log4j2.properties"):
            shutil.copyfile(home / "config" / name, self._config / name)
        # The last is the mark by which the node itself, a child of the launcher, is known as ours.
        options = "\n".join([*HEAP, f"-Dtowpath.stack={self.data_dir}/", ""])
        (self._config / "jvm.options.d" / "towpath.options").write_text(options, encoding="utf-8")
        lines = (f"{key}: {json.dumps(value)}\n" for key, value in self._values().items())
        (self._config / "elasticsearch.yml").write_text("".join(lines), encoding="utf-8")
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
            "xpack.security.enabled": "false",
            # A disk that is fuller than it likes makes indices read-only, which on a laptop is most disks.
            "cluster.routing.allocation.disk.threshold_enabled": "false",
            **self._own_settings,
        }

    def _command(self) -> list[str]:
        """What its start script runs after looking for Java, which we have found already."""
        home = self._require_home()
        properties = {
            "cli.name": "server",
            "cli.script": f"{home}/bin/elasticsearch",
            "cli.libs": "lib/tools/server-cli",
            "es.path.home": home,
            "es.path.conf": self._config,
            "es.distribution.type": "zip",
            "es.java.type": "ES_JAVA_HOME",
        }
        options = ["-Xms4m", "-Xmx64m", "-XX:+UseSerialGC", *(f"-D{key}={value}" for key, value in properties.items())]
        launcher = ["-cp", f"{home}/lib/*:{home}/lib/cli-launcher/*", "org.elasticsearch.launcher.CliToolLauncher"]
        return [f"{self._java.home}/bin/java", *options, *launcher]

    def _environment(self) -> dict[str, str]:
        return environment(
            self._java,
            ES_JAVA_HOME=str(self._java.home),
            ES_PATH_CONF=str(self._config),
            ES_TMPDIR=str(self.data_dir / "tmp"),
            HOME=str(self.data_dir),
        )

    def _working_directory(self) -> Path:
        return self._require_home()  # where its launcher looks for its modules

    def _port_of_running(self) -> int:
        config = self._config / "elasticsearch.yml"
        found = re.search(r'^http\.port: "(\d+)"', config.read_text(), re.MULTILINE)
        if found is None:
            raise ServerFailed(f"elasticsearch runs, but {config} does not say on which port")
        return int(found[1])

    def _require_home(self) -> Path:
        if self._home is None:
            raise ServerFailed("elasticsearch has not been prepared")
        return self._home
