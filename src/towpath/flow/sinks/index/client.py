"""The connection to Elasticsearch or OpenSearch: addresses, credentials, and what can go wrong on the way."""

from __future__ import annotations

import gzip
import os
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson
import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    InsecureRequestWarning,
    NewConnectionError,
    ProtocolError,
    ReadTimeoutError,
    SSLError,
)

from towpath.errors import BadSettings, SinkError
from towpath.flow.failures import ErrorCode, bounded

GZIP_LEVEL = 1  # what a faster one would save on the wire is less than what it costs here
NDJSON = "application/x-ndjson"
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Credentials:
    """User and password, or key. Values from variables are read where they are used, so that they travel nowhere."""

    username: str | None = None
    password: str | None = None
    api_key: str | None = None
    password_env: str | None = None
    api_key_env: str | None = None

    def headers(self) -> dict[str, str]:
        """The header that proves it; `BadSettings` when a variable is not set on this machine."""
        api_key = _variable(self.api_key_env) if self.api_key_env else self.api_key
        if api_key is not None:
            return {"authorization": f"ApiKey {api_key}"}
        if self.username is not None:
            password = _variable(self.password_env) if self.password_env else self.password
            return dict(urllib3.make_headers(basic_auth=f"{self.username}:{password}"))
        return {}

    def __repr__(self) -> str:
        return "Credentials(…)"


def _variable(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise BadSettings(
            f"the variable {name} is not set here; an executor on another host gets it by spark.executorEnv.{name}"
        )
    return value


@dataclass(frozen=True, slots=True)
class IndexAddress:
    """Where the server is and how it is spoken to; goes to the workers."""

    url: str
    credentials: Credentials
    ca: str | None  # certificates as text: the workers need no file
    verify: bool
    timeout_s: float
    gzip: bool


class IndexAnswer(NamedTuple):
    """What the server said."""

    status: int
    data: bytes

    def json(self) -> Any:
        try:
            return orjson.loads(self.data)
        except orjson.JSONDecodeError:
            return None

    @property
    def error(self) -> tuple[str, str]:
        """The type and the text of an error."""
        found = self.json()
        error = found.get("error") if isinstance(found, dict) else None
        return explained(error or bounded(self.data.decode(errors="replace"), 200) or f"answer {self.status}")


def explained(error: Any) -> tuple[str, str]:
    """The type and the text of an error as the server describes it, with its cause."""
    if not isinstance(error, dict):
        return "refused", str(error)
    cause = error.get("caused_by")
    reason = str(error.get("reason"))
    if isinstance(cause, dict) and cause.get("reason"):
        reason += f" ({cause['reason']})"
    return str(error.get("type")), bounded(reason)


class IndexClient:
    """Sends requests; safe to use from several threads."""

    def __init__(self, address: IndexAddress, connections: int = 1) -> None:
        self.url = address.url
        self._gzip = address.gzip
        self._headers = address.credentials.headers()
        if not address.verify:
            urllib3.disable_warnings(InsecureRequestWarning)  # it was asked for, by name
        tls = {} if not address.url.startswith("https:") else _tls(address)
        self._pool = urllib3.PoolManager(
            num_pools=1,
            maxsize=connections,
            block=True,
            retries=False,
            timeout=urllib3.Timeout(connect=address.timeout_s, read=address.timeout_s),
            **tls,
        )

    def request(self, method: str, path: str, body: bytes | None = None, kind: str = JSON) -> IndexAnswer:
        """One question and its answer, whatever its status is; `SinkError` when there was none.

        What we ask may be asked twice. A connection that broke is replaced once: servers and what stands before them
        close those that have idled.
        """
        headers = {**self._headers, "content-type": kind}
        if self._gzip and body:
            body = gzip.compress(body, GZIP_LEVEL)
            headers["content-encoding"] = "gzip"
        try:
            return self._request(method, path, body, headers)
        except _Broken:
            pass
        try:
            return self._request(method, path, body, headers)
        except _Broken as error:
            raise SinkError(ErrorCode.NETWORK, self.url, f"the connection broke: {error}") from error

    def _request(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> IndexAnswer:
        try:
            answer = self._pool.request(method, self.url + path, body=body, headers=headers, redirect=False)
        except (NewConnectionError, ConnectTimeoutError, SSLError) as error:
            raise SinkError(ErrorCode.SINK_UNAVAILABLE, self.url, f"cannot be reached: {_plain(error)}") from error
        except ReadTimeoutError as error:
            raise SinkError(ErrorCode.NETWORK, self.url, f"no answer in time: {_plain(error)}") from error
        except ProtocolError as error:
            if any(isinstance(arg, TimeoutError) for arg in error.args):
                raise SinkError(ErrorCode.NETWORK, self.url, "did not take the request in time") from error
            raise _Broken(_plain(error)) from error
        except HTTPError as error:
            raise SinkError(ErrorCode.NETWORK, self.url, _plain(error)) from error
        return IndexAnswer(answer.status, answer.data)

    def close(self) -> None:
        self._pool.clear()


class _Broken(Exception):
    """The connection ended before the answer did."""


def _tls(address: IndexAddress) -> dict[str, Any]:
    if not address.verify:
        return {"cert_reqs": "CERT_NONE", "assert_hostname": False}
    return {"cert_reqs": "CERT_REQUIRED", "ca_cert_data": address.ca}


def _plain(error: HTTPError) -> str:
    """Without the object at whose address in memory it happened: the same failure reads the same every time."""
    text = str(error)
    return text.split(">: ", 1)[1] if ">: " in text else text.split("): ", 1)[-1]


def refused(answer: IndexAnswer, url: str) -> SinkError:
    """The error of a request that was refused as a whole, or that the server failed on."""
    kind, text = answer.error
    code = ErrorCode.SINK_FAILED if answer.status >= 500 or answer.status < 400 else ErrorCode.SINK_REFUSED
    return SinkError(code, url, f"answered {answer.status} {kind}: {text}")
