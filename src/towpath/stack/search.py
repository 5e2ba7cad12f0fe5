"""An Elasticsearch node of our own, and what it has in common with one of OpenSearch: both come from the same code.

Elasticsearch is the minimal distribution, the only one in a registry for Java libraries: index, bulk, search, count and
refresh work; the root address, which some clients ask first, answers 405. Programs are unpacked once where the user
that runs them can read them.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from towpath.errors import FetchFailed, ServerFailed
from towpath.spark.artifacts import ELASTICSEARCH, Report, cache_directory, exclusively, fetch, read_lock, tell_waiting
from towpath.spark.java import Java
from towpath.stack.daemon import HOST, JavaServer, ask, environment
from towpath.stack.server import SettingsSections, explaining
from towpath.stack.user import ServerUser, server_user, shared_directory

HEAP = ("-Xms512m", "-Xmx512m")


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
        """Write further files of the configuration."""

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

    def _port_setting(self) -> tuple[Path, str]:
        return self._config / self.settings_file, r'^http\.port: "(\d+)"'

    def _require_home(self) -> Path:
        if self._home is None:
            raise ServerFailed(f"{self.name} has not been prepared")
        return self._home


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


def install(user: ServerUser, java: Java, report: Report | None, name: str = ELASTICSEARCH) -> Path:
    """The directory with its programs, after fetching and unpacking what is not there yet."""
    packed = read_lock(name)[0]
    archive = fetch(name, java, report) / packed.file_name
    place = _place(user) / f"{name}-{packed.sha256[:12]}"
    alone = exclusively(place.with_suffix(".lock"), lambda: tell_waiting(name, report))
    with explaining(name, place), alone, zipfile.ZipFile(archive) as files:
        if not _is_complete(place, files):
            if not packed.fits(archive):
                archive.unlink()
                raise FetchFailed(f"{archive} was damaged and is deleted; run the same command again to fetch it anew")
            _unpack(files, place)
    return place / f"{name}-{packed.coordinates.revision}"


def _place(user: ServerUser) -> Path:
    cache = cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    return cache if user.reaches(cache) else shared_directory()


def _is_complete(place: Path, files: zipfile.ZipFile) -> bool:
    """Whether every file is there in its size: cleaners of temporary directories take what looks old."""
    try:
        return all((place / it.filename).stat().st_size == it.file_size for it in files.infolist() if not it.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return False


def _unpack(files: zipfile.ZipFile, place: Path) -> None:
    aside = Path(tempfile.mkdtemp(dir=place.parent, prefix=f".{place.name}-"))
    try:
        files.extractall(aside)
        _open_to_all(aside)
        shutil.rmtree(place, ignore_errors=True)
        aside.rename(place)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _open_to_all(root: Path) -> None:
    for path in (root, *root.rglob("*")):
        is_program = path.is_dir() or path.parent.name == "bin"
        path.chmod(0o755 if is_program else 0o644)
