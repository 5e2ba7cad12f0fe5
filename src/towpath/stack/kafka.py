"""A Kafka broker of our own: one node that is its own controller (KRaft).

Whether it answers is asked in Kafka's own protocol and without its client. The question is `ApiVersions`, the one that
every version of Kafka answers without knowing the asker. A broker lets clients in only when it has caught up with its
own metadata, so that an answer means that it is ready.
"""

from __future__ import annotations

import base64
import re
import shutil
import socket
import struct
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

from towpath.errors import ServerFailed
from towpath.spark.artifacts import KAFKA, Report, fetch, read_lock
from towpath.stack.daemon import HOST, JavaServer, environment, free_port
from towpath.stack.server import SettingsSections, reason
from towpath.stack.user import current_user, run_within

HEAP = ("-Xms256m", "-Xmx512m")
FORMAT_TIMEOUT_S = 60
ANSWER_TIMEOUT_S = 2.0
# Above Towpath's own limit for a record, with room for its frame.
MESSAGE_MAX_BYTES = 70 << 20
LOG_CONFIGURATION = """status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %p %m (%c{1})%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
# Hundreds of lines with every property, at every start.
logger.config.name = org.apache.kafka.common.config.AbstractConfig
logger.config.level = warn
"""
_API_VERSIONS = 18
_CORRELATION = 7
# Length; then the kind of question, its version, a number that the answer repeats, and no name of a client.
_QUESTION = struct.pack(">ihhih", 10, _API_VERSIONS, 0, _CORRELATION, -1)
_ANSWER = struct.Struct(">iih")


class KafkaServer(JavaServer):
    """Starts, stops and crashes one Kafka broker on 127.0.0.1.

    The data can be used again on another port. With `advertised_port` clients are told to come to that port, where a
    test may have put a proxy; the broker's talk with itself does not go through it. `settings` overrule those in
    `server.properties`.
    """

    name = "kafka"

    def __init__(
        self,
        data_dir: Path,
        port: int | None = None,
        advertised_port: int | None = None,
        settings: Mapping[str, str] | None = None,
        java_home: str = "",
    ) -> None:
        super().__init__(data_dir, current_user(), port, settings, java_home)
        self.advertised_port = advertised_port
        self._jars: Path | None = None
        self._topics = self.data_dir / "topics"
        self._properties = self.data_dir / "server.properties"

    @property
    def bootstrap(self) -> str:
        """The address as Kafka's own clients want it."""
        return f"{HOST}:{self.advertised_port or self.port}"

    @property
    def url(self) -> str:
        return f"kafka://{self.bootstrap}"

    @property
    def settings(self) -> SettingsSections:
        return {"log": {"url": self.url}}

    @property
    def version(self) -> str:
        return next(file.coordinates.revision for file in read_lock(KAFKA) if file.coordinates.name == "kafka_2.13")

    def is_healthy(self) -> bool:
        return self.is_running and answers(self.port)

    def prepare(self, report: Report | None = None) -> None:
        if not self.is_running:
            self._jars = fetch(KAFKA, self._java, report)

    def _set_up(self) -> None:
        (self.data_dir / "log4j2.properties").write_text(LOG_CONFIGURATION, encoding="utf-8")
        if not self._topics.exists():
            self._format()
        self._write_properties(self._topics)

    def _format(self) -> None:
        """Make empty data aside and move them to their place, so that what is there is complete."""
        aside = self.data_dir / "formatting"
        shutil.rmtree(aside, ignore_errors=True)
        self._write_properties(aside)
        cluster_id = base64.urlsafe_b64encode(uuid4().bytes).rstrip(b"=").decode()
        # As one word: the id may begin with a dash.
        words = ["kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "--config", str(self._properties)]
        done = run_within(FORMAT_TIMEOUT_S, [*self._program(), *words], env=self._environment())
        if done.returncode != 0:
            raise ServerFailed(f"kafka: no data could be made in {self.data_dir}:\n{reason(done.stdout)}")
        aside.rename(self._topics)

    def _write_properties(self, topics: Path) -> None:
        lines = (f"{key}={_escaped(value)}\n" for key, value in self._values(topics).items())
        self._properties.write_text("".join(lines), encoding="utf-8")

    def _values(self, topics: Path) -> dict[str, str]:
        internal = free_port(self.port)
        controller = free_port(self.port, internal)
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{HOST}:{controller}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "INTERNAL",
            "listeners": f"CLIENT://{HOST}:{self.port},INTERNAL://{HOST}:{internal},CONTROLLER://{HOST}:{controller}",
            "advertised.listeners": f"CLIENT://{self.bootstrap},INTERNAL://{HOST}:{internal}",
            "listener.security.protocol.map": "CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(topics),
            "auto.create.topics.enable": "false",
            "message.max.bytes": str(MESSAGE_MAX_BYTES),
            "group.initial.rebalance.delay.ms": "0",
            # After a crash the controller lets the broker in again only when the session of the killed one is over.
            "broker.session.timeout.ms": "4000",
            "broker.heartbeat.interval.ms": "500",
            # One broker, and few clients: a start that makes hundreds of partitions takes seconds longer.
            "offsets.topic.num.partitions": "4",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            **self._own_settings,
        }

    def _program(self) -> list[str]:
        if self._jars is None:
            self.prepare()
        options = [*HEAP, "-Djava.awt.headless=true", f"-Dlog4j2.configurationFile={self.data_dir}/log4j2.properties"]
        return [str(self._java.program), *options, "-cp", f"{self._jars}/*"]

    def _command(self) -> list[str]:
        return [*self._program(), "kafka.Kafka", str(self._properties)]

    def _environment(self) -> dict[str, str]:
        return environment(self._java)

    def _port_setting(self) -> tuple[Path, str]:
        return self._properties, rf"^listeners=CLIENT://{re.escape(HOST)}:(\d+)"


def answers(port: int) -> bool:
    """Whether a broker on that port says that it is well."""
    try:
        with socket.create_connection((HOST, port), ANSWER_TIMEOUT_S) as connection:
            connection.sendall(_QUESTION)
            said = _receive(connection, _ANSWER.size)
    except OSError:
        return False
    if len(said) < _ANSWER.size:
        return False
    _, correlation, error = _ANSWER.unpack(said)
    return bool(correlation == _CORRELATION and error == 0)


def _receive(connection: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size and (part := connection.recv(size - len(got))):
        got += part
    return got


def _escaped(value: str) -> str:
    """A value of a Java properties file, in which a backslash starts an escape."""
    return value.replace("\\", "\\\\")
