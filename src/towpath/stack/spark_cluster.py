"""A standalone Spark cluster of our own: a master and some workers, from the Spark that pyspark carries."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

from towpath.core import os_processes as processes
from towpath.spark import cluster
from towpath.spark.java import Java, find_java, spark_home
from towpath.stack.daemon import HOST, Daemon, ask, environment, free_port, require_free
from towpath.stack.server import LOG_LINES_SHOWN, Server, SettingsSections, explaining, tail
from towpath.stack.user import current_user

MASTER_CLASS = "org.apache.spark.deploy.master.Master"
WORKER_CLASS = "org.apache.spark.deploy.worker.Worker"
# Nobody but the programs of this project sends work, and they do it by the master's own port.
CONFIGURATION = "spark.master.rest.enabled false\nspark.worker.cleanup.enabled true\n"
# Master and workers only hand out work: what they compile well they never run often enough to pay for it.
QUICK_START = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
DAEMON_MEMORY = "256m"


class SparkCluster(Server):
    """Starts, stops and crashes one master and `workers` workers on 127.0.0.1.

    `cores` and `memory` are what each worker has to give to executors. The cluster keeps no data: after a crash of the
    master its applications have to connect anew.

    Who may send work may do all that the cluster's user may. So it takes work only from those who know a secret, new at
    each start: Towpath's sessions of the same user find it by themselves, other programs have it in `properties_file`.
    """

    name = "spark"

    def __init__(
        self,
        data_dir: Path,
        port: int | None = None,
        workers: int = 1,
        cores: int = 2,
        memory: str = "2g",
        java_home: str = "",
    ) -> None:
        self.data_dir = data_dir.absolute()
        self._port = port or None
        self._cores = cores
        self._memory = memory
        self._java_home = java_home
        self._web_port: int | None = None
        self.master = self._daemon("master")
        self.workers = [self._daemon(f"worker-{number}") for number in range(1, workers + 1)]

    @property
    def url(self) -> str:
        return f"spark://{HOST}:{self.port}"

    @property
    def settings(self) -> SettingsSections:
        return {"spark": {"master": self.url}}

    @property
    def version(self) -> str:
        return version("pyspark")

    @property
    def pids(self) -> list[int]:
        return [daemon.pid for daemon in self._daemons if daemon.pid]

    @property
    def logs(self) -> list[Path]:
        return [daemon.log for daemon in self._daemons]

    @property
    def properties_file(self) -> Path:
        """What an application has to know, as `spark-submit --properties-file` takes it."""
        return self.data_dir / "spark.conf"

    @property
    def web_url(self) -> str:
        """The master's own page."""
        return f"http://{HOST}:{self._web_port}"

    @property
    def is_running(self) -> bool:
        return all(daemon.pid for daemon in self._daemons)

    def attach(self) -> bool:
        port, web_port = _port_of(self.master), _port_of(self.master, "webui-port")
        if port is None or web_port is None:
            return False
        self._port, self._web_port = port, web_port
        return True

    def is_healthy(self) -> bool:
        """The master says that it is alive and that these very workers have come to it."""
        state = ask(f"{self.web_url}/json/")
        # Told apart by their ports: the master counts a worker that died for a while as alive.
        alive = {worker["port"] for worker in state.get("workers", ()) if worker["state"] == "ALIVE"}
        return self.is_running and state.get("status") == "ALIVE" and alive.issuperset(map(_port_of, self.workers))

    def launch(self) -> None:
        with explaining(self.name, self.data_dir):
            self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self.attach():
                self._launch_master()
            cluster.keep(self.url, self._secret())
            for worker in self.workers:
                if not worker.pid:
                    worker.kill()
                    worker.start(self._worker_command(worker), self._environment())

    def stop(self) -> None:
        self._end(Daemon.stop)

    def kill(self) -> None:
        self._end(Daemon.kill)

    def log_tail(self, lines: int = LOG_LINES_SHOWN) -> str:
        """The last lines of the first process that has ended; of the master when all run."""
        ended = next((daemon for daemon in self._daemons if daemon.pid is None), self.master)
        return "\n".join(tail(ended.log, lines)) or "(no log was written)"

    def _launch_master(self) -> None:
        # Workers of a master that is gone would go on looking for it.
        self.kill()
        self._port = self._port or free_port()
        self._web_port = free_port(self._port)
        require_free(self.name, self._port)
        self._write_properties()
        words = ["--host", HOST, "--port", str(self._port), "--webui-port", str(self._web_port)]
        self.master.start(self._command(MASTER_CLASS, words), self._environment())

    def _write_properties(self) -> None:
        self.properties_file.unlink(missing_ok=True)
        authentication = f"{cluster.ENABLED} true\n{cluster.SECRET} {secrets.token_hex(32)}\n"
        with open(self.properties_file, "w", encoding="utf-8", opener=_for_us_only) as file:
            file.write(CONFIGURATION + authentication)

    def _secret(self) -> str:
        lines = (line.split() for line in self.properties_file.read_text(encoding="utf-8").splitlines())
        return next((value for key, value in lines if key == cluster.SECRET), "")

    def _end(self, end: Callable[[Daemon], None]) -> None:
        self.attach()  # the secret is kept under the port, which another object may have chosen
        for daemon in self._all_there():
            end(daemon)
        if self._port:
            cluster.forget(self.url)

    def _worker_command(self, worker: Daemon) -> list[str]:
        work = self.data_dir / "work" / worker.name
        size = ["--cores", str(self._cores), "--memory", self._memory]
        place = ["--host", HOST, "--port", str(free_port()), "--webui-port", "0", "--work-dir", str(work)]
        return self._command(WORKER_CLASS, [*place, *size, self.url])

    def _command(self, main_class: str, words: list[str]) -> list[str]:
        program = str(spark_home() / "bin" / "spark-class")
        return ["/bin/bash", program, main_class, "--properties-file", str(self.properties_file), *words]

    @cached_property
    def _java(self) -> Java:
        return find_java(self._java_home)

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in environment(self._java).items() if not name.startswith("SPARK_")}
        ours = {
            "SPARK_HOME": str(spark_home()),
            "SPARK_CONF_DIR": str(self.data_dir),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": DAEMON_MEMORY,
            "SPARK_DAEMON_JAVA_OPTS": QUICK_START,
            "SPARK_LAUNCHER_OPTS": QUICK_START,
        }
        return {**kept, **ours}

    @property
    def _daemons(self) -> list[Daemon]:
        return [self.master, *self.workers]

    def _all_there(self) -> list[Daemon]:
        """All processes, also of workers that another object with more workers has started; the master last."""
        others = {path.stem for path in self.data_dir.glob("worker-*.pid")} - {worker.name for worker in self.workers}
        return [*self.workers, *map(self._daemon, sorted(others)), self.master]

    def _daemon(self, name: str) -> Daemon:
        return Daemon(name, self.data_dir, current_user())


def _for_us_only(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _port_of(daemon: Daemon, option: str = "port") -> int | None:
    """What the process was told when it was started; None when it does not run."""
    running = processes.find_process(daemon.pid or 0)
    found = re.search(rf" --{option} (\d+) ", running.command) if running is not None else None
    return int(found[1]) if found else None
