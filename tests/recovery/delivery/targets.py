"""The sinks under test, each with a way to look into it that is not the code under test."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from tests.recovery.delivery.target import Rows, Target
from tests.support.elasticsearch import Node
from tests.support.logs import everything

from towpath import files, index, table, topic
from towpath.log import Log


@dataclass
class TopicTarget:
    prefix: str = ""
    kind = "topic"
    may_refuse = False

    def sink(self, output: str) -> Any:
        return topic(f"{self.prefix}out-{output}", partitions=2)

    def rows(self, output: str, log: Log) -> Rows:
        name = f"{self.prefix}out-{output}"
        if name not in {each.name for each in log.topics()}:
            return []
        return [json.loads(record.value or b"") for record in everything(log, name)]


@dataclass
class SqliteTarget:
    home: Path
    prefix: str = ""
    kind = "sqlite"
    may_refuse = True

    def sink(self, output: str) -> Any:
        return table(f"out_{output}", url=f"sqlite:///{self.home}/out.db", columns={"fits": "integer"})

    def rows(self, output: str, log: Log) -> Rows:
        with sqlite3.connect(self.home / "out.db") as connection:
            return [json.loads(text) for (text,) in connection.execute(f"select document from out_{output}")]


@dataclass
class PostgresTarget:
    url: str
    schema: str
    prefix: str = ""
    kind = "postgres"
    may_refuse = True

    def sink(self, output: str) -> Any:
        return table(f"out_{output}", url=self.url, schema=self.schema, columns={"fits": "integer"})

    def rows(self, output: str, log: Log) -> Rows:
        with psycopg.connect(self.url) as connection:
            found = connection.execute(f"select document from {self.schema}.out_{output}").fetchall()
        return [each if isinstance(each, dict) else json.loads(each) for (each,) in found]


@dataclass
class FilesTarget:
    home: Path
    prefix: str = ""
    kind = "files"
    may_refuse = False

    def sink(self, output: str) -> Any:
        return files(str(self.home / f"out-{output}"))

    def rows(self, output: str, log: Log) -> Rows:
        found = [path for path in (self.home / f"out-{output}").rglob("*.jsonl") if not path.name.startswith(".")]
        return [json.loads(line) for path in found for line in path.read_text().splitlines()]


@dataclass
class IndexTarget:
    url: str
    indices: str
    prefix: str = ""
    kind = "index"
    may_refuse = True

    def sink(self, output: str) -> Any:
        return index(f"{self.indices}-{output}", url=self.url)

    def rows(self, output: str, log: Log) -> Rows:
        node = Node(self.url)
        if not node.ask("GET", f"/_cat/indices/{self.indices}-{output}*?format=json"):
            return []
        return [each.source for each in node.documents(f"{self.indices}-{output}")]

    def prepare(self, output: str) -> None:
        """A field of one type, so that a document with another is refused."""
        mapping = {"mappings": {"properties": {"fits": {"type": "integer"}}}}
        Node(self.url).ask("PUT", f"/{self.indices}-{output}", json.dumps(mapping))


TARGETS: dict[str, Callable[..., Target]] = {
    "topic": TopicTarget,
    "sqlite": SqliteTarget,
    "postgres": PostgresTarget,
    "files": FilesTarget,
    "index": IndexTarget,
}
