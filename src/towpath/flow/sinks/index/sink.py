"""Elasticsearch and OpenSearch as a sink."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote, urlsplit

from towpath.errors import BadFlow, BadSettings, SinkError
from towpath.flow.failures import ErrorCode
from towpath.flow.sinks.index.client import NDJSON, Credentials, IndexAddress, IndexClient, refused
from towpath.flow.sinks.index.writer import BulkLayout, IndexWriter
from towpath.flow.sinks.sink import WriterContext
from towpath.flow.sinks.template import Template
from towpath.settings import Settings

URL = "http://127.0.0.1:9200"
MAX_ITEMS = 5_000
MAX_BYTES = 5 << 20
IN_FLIGHT = 2
TIMEOUT_S = 60.0
INPUT = "input"

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_INDEX = re.compile(r'(?![-_+.])[^\s\\/*?"<>|,#:A-Z\x00-\x1f]+')
MAX_INDEX_BYTES = 255


def index(
    target: str,
    *,
    url: str = URL,
    id: str | None = None,
    routing: str | None = None,
    version: str | None = INPUT,
    op: Literal["index", "create"] = "index",
    username: str | None = None,
    password: str | None = None,
    password_env: str | None = None,
    api_key: str | None = None,
    api_key_env: str | None = None,
    ca: str | Path | None = None,
    verify: bool = True,
    max_items: int = MAX_ITEMS,
    max_bytes: int = MAX_BYTES,
    in_flight: int = IN_FLIGHT,
    gzip: bool | None = None,
    timeout_s: float = TIMEOUT_S,
) -> IndexSink:
    """Documents of an index of Elasticsearch (8 or 9) or OpenSearch (2 or 3); a missing index is made by the server.

    `target`, `id` and `routing` may name fields of the document: `index("views-{day}", id="{visitor}-{at}")`. Without
    `id` a document is known by the place of its record, so that a repeat writes it over itself. With `id` the newest
    record of an id wins, whenever it comes: by its place in the input (`version="input"`), or by a whole number in the
    named field. `version=None` takes what comes last. `op="create"` leaves a document that is there alone; data
    streams need it.

    Passwords and keys belong in variables: `password_env` and `api_key_env` are their names, on every worker too. `ca`
    is a file of certificates to trust. `gzip` is on by itself where the server is on another machine.
    """
    name = Template(target)
    _check_index(name)
    _check_url(url)
    _check_credentials(username, password, password_env, api_key, api_key_env)
    _check_version(version, op)
    for what, value in (("max_items", max_items), ("max_bytes", max_bytes), ("in_flight", in_flight)):
        if value < 1:
            raise BadFlow(f"{what} is at least 1, not {value}")
    if timeout_s <= 0:
        raise BadFlow(f"timeout_s is more than 0, not {timeout_s}")
    return IndexSink(
        target=name,
        id=Template(id) if id is not None else None,
        routing=Template(routing) if routing is not None else None,
        version=version if id is not None and op == "index" else None,
        op=op,
        address=IndexAddress(
            url=url.rstrip("/"),
            credentials=Credentials(username, password, api_key, password_env, api_key_env),
            ca=_certificates(ca),
            verify=verify,
            timeout_s=timeout_s,
            gzip=urlsplit(url).hostname not in LOOPBACK if gzip is None else gzip,
        ),
        max_items=max_items,
        max_bytes=max_bytes,
        in_flight=in_flight,
    )


@dataclass(frozen=True, slots=True)
class IndexSink:
    """Made by `index`."""

    target: Template
    id: Template | None
    routing: Template | None
    version: str | None
    op: str
    address: IndexAddress
    max_items: int
    max_bytes: int
    in_flight: int
    is_idempotent = True
    may_refuse = True

    def check(self, settings: Settings) -> None:
        """Send an empty bulk request: a user who may write gets the answer that it is empty (400)."""
        client = IndexClient(self.address)
        try:
            answer = client.request("POST", self._path + "/_bulk", b"\n", NDJSON)
        finally:
            client.close()
        if answer.status != 400:
            raise refused(answer, self.address.url)
        if answer.error[0] == "refused":
            raise SinkError(ErrorCode.SINK_REFUSED, self.address.url, "this is neither Elasticsearch nor OpenSearch")

    def writer(self, place: WriterContext) -> IndexWriter:
        layout = BulkLayout(self.op, not self.target.is_fixed, self.version)
        # Two requests may overtake each other. That does no harm where versions, or ids used once, decide.
        decides = self.id is None or self.version is not None or self.op == "create"
        in_flight = self.in_flight if decides else 1
        try:
            client = IndexClient(self.address, in_flight)
        except BadSettings as error:
            raise SinkError(ErrorCode.SINK_REFUSED, self.address.url, str(error)) from error
        return IndexWriter(client, self._path, layout, self.max_items, self.max_bytes, in_flight)

    @property
    def _path(self) -> str:
        return "/" + quote(self.target.filler()({}), safe="") if self.target.is_fixed else ""

    def __str__(self) -> str:
        return f"index {self.target}"

    def __repr__(self) -> str:
        return f"<{self} at {self.address.url}>"


def _check_index(target: Template) -> None:
    """A name that is the same for all records can be wrong before the first."""
    if not target.is_fixed:
        return
    name = target.filler()({})
    if not _INDEX.fullmatch(name) or len(name.encode()) > MAX_INDEX_BYTES:
        raise BadFlow(
            f"{name!r} cannot be the name of an index: small letters, digits and most signs, "
            'not blanks, / \\ * ? " < > | , # : and not - _ + . in front'
        )


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise BadFlow("the url of an index is http://host:port or https://host:port, perhaps with a path")
    if parts.username is not None or parts.password is not None:
        raise BadFlow("the url of an index holds no password; give username= and password_env=")


def _check_credentials(
    username: str | None, password: str | None, password_env: str | None, api_key: str | None, api_key_env: str | None
) -> None:
    given = [value for value in (password, password_env, api_key, api_key_env) if value is not None]
    if len(given) > 1:
        raise BadFlow("give one of password, password_env, api_key and api_key_env")
    needs_user = password is not None or password_env is not None
    if needs_user != (username is not None):
        raise BadFlow("username and password (or password_env) go together")


def _check_version(version: str | None, op: str) -> None:
    if op not in ("index", "create"):
        raise BadFlow(f"op is 'index' or 'create', not {op!r}")
    if version == "":
        raise BadFlow("version is 'input', the name of a field, or None")
    if op == "create" and version not in (INPUT, None):
        raise BadFlow("op='create' keeps the first document of an id; a version has no meaning there")


def _certificates(ca: str | Path | None) -> str | None:
    if ca is None:
        return None
    try:
        return Path(ca).read_text(encoding="ascii")
    except (OSError, ValueError) as error:
        raise BadFlow(f"the certificates in {ca} cannot be read: {error}") from error
