"""An Elasticsearch node of our own.

It is the minimal distribution, the only one in a registry for Java libraries: index, bulk, search, count and refresh
work; the root address, which some clients ask first, answers 405.
"""

from __future__ import annotations

from pathlib import Path

from towpath.spark.artifacts import ELASTICSEARCH
from towpath.stack.java_server import environment
from towpath.stack.search_node import SearchNode

HEAP = ("-Xms512m", "-Xmx512m")


class ElasticsearchServer(SearchNode):
    """Starts, stops and crashes one Elasticsearch node on 127.0.0.1.

    As root it runs as an ordinary user; when that user cannot reach `data_dir`, the data live below the temporary
    directory instead and `data_dir` says where. `settings` overrule those in `elasticsearch.yml`.
    """

    name = ELASTICSEARCH
    settings_file = "elasticsearch.yml"
    copied = ("jvm.options", "log4j2.properties")
    directories = (*SearchNode.directories, "config/jvm.options.d")

    def _write_options(self) -> None:
        # The last is the mark by which the node itself, a child of the launcher, is known as ours.
        options = "\n".join([*HEAP, f"-Dtowpath.stack={self.data_dir}/", ""])
        (self._config / "jvm.options.d" / "towpath.options").write_text(options, encoding="utf-8")

    def _values(self) -> dict[str, str]:
        return {"xpack.security.enabled": "false", **super()._values()}

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
