"""An OpenSearch node for a test, gone when it ends. `towpath stack` has none: it is here to hold the index sink to it.

As of Elasticsearch, the minimal distribution is the only one in a registry for Java libraries.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from towpath.spark.artifacts import OPENSEARCH
from towpath.stack.java_server import environment
from towpath.stack.search_node import SearchNode
from towpath.testing.servers import server_home

OPTIONS = ("-Xms512m", "-Xmx512m", "-XX:+UseSerialGC", "-Djava.security.manager=allow")


@contextmanager
def opensearch_server() -> Iterator[OpenSearchServer]:
    """A running OpenSearch node without indices."""
    with server_home() as home, OpenSearchServer(home / OPENSEARCH) as server:
        yield server


class OpenSearchServer(SearchNode):
    """Starts, stops and crashes one OpenSearch node on 127.0.0.1; as root it runs as an ordinary user."""

    name = OPENSEARCH
    settings_file = "opensearch.yml"
    copied = ("log4j2.properties",)

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
