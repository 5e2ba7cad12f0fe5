"""Real servers for a test, gone when it ends.

Each runs on a free port in a directory of its own, which is deleted after use.

    python -m towpath.testing.servers    fetches what they need, so that no test waits for the network

`towpath stack` has no OpenSearch: it is here to hold the index sink to it. As of Elasticsearch, the minimal
distribution is the only one in a registry for Java libraries.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from towpath.spark.artifacts import OPENSEARCH, SETS, FetchProgress, fetch, is_fetched
from towpath.spark.java import find_java
from towpath.stack.daemon import environment
from towpath.stack.kafka import KafkaServer
from towpath.stack.postgres import PostgresServer
from towpath.stack.search import ElasticsearchServer, SearchNode
from towpath.stack.server import Server
from towpath.stack.spark_cluster import SparkCluster

_OPENSEARCH_OPTIONS = ("-Xms512m", "-Xmx512m", "-XX:+UseSerialGC", "-Djava.security.manager=allow")

AnyServer = TypeVar("AnyServer", bound=Server)


@contextmanager
def postgres_server(settings: Mapping[str, str] | None = None) -> Iterator[PostgresServer]:
    """A running PostgreSQL with an empty database."""
    with server_home() as home, _killed(PostgresServer(home / "postgres", settings=settings)) as server:
        yield server


@contextmanager
def kafka_server(
    advertised_port: int | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[KafkaServer]:
    """A running Kafka broker without topics; with `advertised_port` clients are sent to a proxy there."""
    with server_home() as home, _killed(KafkaServer(home / "kafka", None, advertised_port, settings)) as server:
        yield server


@contextmanager
def elasticsearch_server(settings: Mapping[str, str] | None = None) -> Iterator[ElasticsearchServer]:
    """A running Elasticsearch node without indices."""
    with server_home() as home, _killed(ElasticsearchServer(home / "elasticsearch", settings=settings)) as server:
        yield server


@contextmanager
def opensearch_server() -> Iterator[OpenSearchServer]:
    """A running OpenSearch node without indices."""
    with server_home() as home, OpenSearchServer(home / OPENSEARCH) as server:
        yield server


@contextmanager
def spark_cluster(workers: int = 1, cores: int = 2, memory: str = "2g") -> Iterator[SparkCluster]:
    """A running Spark master with workers."""
    with server_home() as home, _killed(SparkCluster(home / "spark", None, workers, cores, memory)) as cluster:
        yield cluster


@contextmanager
def server_home() -> Iterator[Path]:
    """A directory for a server, deleted after use."""
    home = Path(tempfile.mkdtemp(prefix="towpath-"))
    # As root some servers run as another user, who must be able to enter the directory.
    home.chmod(0o711)
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def fetch_all() -> None:
    """With a line for each set that is not there yet."""
    for name in SETS:
        if not is_fetched(name):
            fetch(name, find_java(), _show)
            sys.stdout.write("\n")


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
        options = [*_OPENSEARCH_OPTIONS, *(f"-D{key}={value}" for key, value in properties.items())]
        return [str(self._java.program), *options, "-cp", f"{home}/lib/*", "org.opensearch.bootstrap.OpenSearch"]

    def _environment(self) -> dict[str, str]:
        return environment(self._java, HOME=str(self.data_dir))


@contextmanager
def _killed(server: AnyServer) -> Iterator[AnyServer]:
    """In the end: a goodbye would take its time to save what is deleted at once."""
    with server:
        try:
            yield server
        finally:
            server.kill()


def _show(progress: FetchProgress) -> None:
    done, total = progress.bytes >> 20, progress.bytes_total >> 20
    if sys.stdout.isatty() or done == total:
        sys.stdout.write(f"\r      {progress.name}: {done} of {total} MB")
        sys.stdout.flush()


if __name__ == "__main__":
    fetch_all()
