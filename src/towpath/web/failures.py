"""Everything that goes wrong, in one shape: `{"error": {"code", "message", "details"}}`. And what all routes share."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from towpath import errors
from towpath.core.logs import without_password
from towpath.errors import TowpathError
from towpath.operations.model import LARGEST, MOST_ROWS
from towpath.web.auth import note_refused

PREFIX = "/api/v1"
GATEWAY = "/gateway/v1"
COMPLAINTS = "/complaints"  # the only change that anybody may ask for without a key
RETRY_S = 1.0

FlowName = Annotated[str, Path(max_length=300)]
Number = Annotated[int, Path(ge=1, le=LARGEST)]
Limit = Annotated[int, Query(ge=1, le=MOST_ROWS, description="How many to show.")]
Before = Annotated[
    int | None, Query(ge=1, le=LARGEST, description="Go on where a page ended: what it has under `next`.")
]

ErrorPage = Callable[[Request, int, str], Response]

_BROKEN = "this is a fault in Towpath; its log has the trace under the request's id"
_BROKEN_PAGE = f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Something is broken · Towpath</title>
<h1>Something is broken</h1><p>{_BROKEN} (header X-Request-ID). <a href="/">Overview</a></p></html>"""
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")
_FOR_PROGRAMS = (PREFIX, GATEWAY, "/healthz", "/readyz", "/metrics")
_CONFLICTS = ("Illegal", "Changed", "Duplicate", "NotRunning", "NotFailed", "NotAsleep", "LastAdmin")

# What is not said by the name or the kind of an error.
_STATUS: dict[type[TowpathError], int] = {
    errors.TooManyFailures: 429,
    errors.NotLoggedIn: 401,
    errors.NotAllowed: 403,
    errors.ForeignForm: 403,
    errors.LinkUsed: 410,
    errors.RequestReused: 409,
    errors.RequestRunning: 409,
    errors.KeyEnded: 409,
    errors.StaleEdit: 409,
    errors.CountedAlready: 409,
    errors.NeedsAnother: 403,
    errors.FieldsMasked: 403,
    errors.ShownOnce: 409,
    errors.DataSetInUse: 409,
    errors.NotWhileInUse: 409,
    errors.RecordUnknown: 409,
    errors.ClaimLost: 409,
    errors.UnknownState: 422,
    errors.OffsetOutOfRange: 404,
    errors.ChunkGap: 409,
    errors.SessionReplaced: 409,
    errors.SumDiffers: 409,
    errors.ResultsGone: 410,
    errors.ChunkTooLarge: 413,
    errors.LineTooLong: 413,
    errors.UploadTooLarge: 413,
    errors.NotYet: 429,
    errors.TooFast: 429,
    errors.BadSettings: 503,  # of this server: who asks cannot mend them
    errors.LauncherError: 503,
    errors.DatabaseUnavailable: 503,
    errors.CommitUnknown: 503,
    errors.LogUnavailable: 503,
    errors.PartlyAppended: 503,
    errors.TransactionUnknown: 503,
    errors.ProducerFenced: 503,
    errors.ProcessDead: 503,
}
# What a client goes by, and under which name.
_DETAILS: dict[type[TowpathError], dict[str, str]] = {
    errors.ChunkGap: {"position": "position"},
    errors.ChunkTooLarge: {"chunk_bytes": "limit"},
    errors.DataSetInUse: {"users": "users"},
    errors.LineTooLong: {"position": "position", "line": "line", "line_bytes": "limit"},
    errors.NotYet: {"reason": "reason"},
    errors.SessionReplaced: {"newest": "newest"},
}


class Wrong(BaseModel):
    """What went wrong: `code` for programs, `message` for people."""

    code: str
    message: str
    details: Any


class Failure(BaseModel):
    """The one shape of whatever goes wrong."""

    error: Wrong


def failures(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What a route may answer besides what it is for."""
    return {status: {"model": Failure, "description": HTTPStatus(status).phrase} for status in statuses}


def register(app: FastAPI, page: ErrorPage | None = None) -> None:
    """Let the app answer every error in the one shape; on `page`s of the console, as a page that says the same.

    What nobody foresaw is answered by `RequestMiddleware`.
    """

    def shown(request: Request, answer: Response) -> Response:
        if page is None or _is_for_programs(request):
            return answer
        said = json.loads(bytes(answer.body))["error"]
        made = page(request, answer.status_code, said["message"])
        if "Retry-After" in answer.headers:
            made.headers["Retry-After"] = answer.headers["Retry-After"]
        return made

    def towpath(request: Request, error: Exception) -> Response:
        assert isinstance(error, TowpathError)  # noqa: S101 - for the type checker: it is registered for these
        if status_of(error) == 500:
            raise error  # `RequestMiddleware` writes its trace to the log
        if isinstance(error, errors.Refused):
            note_refused(request, str(error))
        return shown(request, of_towpath(error))

    def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 - as above
        return shown(request, of_http(error))

    def validation(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)  # noqa: S101 - as above
        note_refused(request, "the request is not valid")
        return shown(request, of_validation(error))

    app.add_exception_handler(TowpathError, towpath)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RequestValidationError, validation)


def failure(
    status: int,
    code: str,
    message: str,
    details: Any = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The one shape."""
    body = {"error": {"code": code, "message": message, "details": {} if details is None else details}}
    return Response(json.dumps(body), status, dict(headers or {}), "application/json")


def of_towpath(error: TowpathError) -> Response:
    status = status_of(error)
    if status == 500:
        return unexpected()
    headers = {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    may_pass = status in (429, 503) and not isinstance(error, errors.BadSettings)
    if may_pass or isinstance(error, errors.RequestRunning):
        headers["Retry-After"] = str(math.ceil(max(RETRY_S, _after_s(error))))
    return failure(status, code_of(type(error)), message_of(error), details_of(error), headers)


def of_http(error: HTTPException) -> Response:
    code = HTTPStatus(error.status_code).phrase.lower().replace(" ", "_").replace("-", "_")
    message = str(error.detail) if error.status_code < 500 else HTTPStatus(error.status_code).phrase
    return failure(error.status_code, code, _valid(message), headers=error.headers)


def of_validation(error: RequestValidationError) -> Response:
    """What is wrong where. Never what was sent: it may be a secret."""
    details = [
        {"where": _valid(".".join(map(str, each["loc"]))), "message": _valid(each["msg"].removeprefix("Value error, "))}
        for each in error.errors()
    ]
    first = details[0] if details else {"where": "body", "message": "cannot be read"}
    return failure(422, "not_valid", f"{first['where']}: {first['message']}", details)


def unexpected(*, as_page: bool = False) -> Response:
    """A fault of ours. As a page it is written here, and from nothing that could be broken, too."""
    if as_page:
        return HTMLResponse(_BROKEN_PAGE, 500)
    return failure(500, "unexpected", _BROKEN)


def status_of(error: TowpathError) -> int:
    """Which status an error of Towpath is answered with."""
    for kind in type(error).__mro__:
        if kind in _STATUS:
            return _STATUS[kind]
    name = type(error).__name__
    if not isinstance(error, errors.Refused):
        return 500
    if name.startswith("Unknown"):
        return 404
    if name.startswith(_CONFLICTS) or name.endswith("Exists"):
        return 409
    return 422


def code_of(error: type) -> str:
    """`IllegalMove` as `illegal_move`."""
    return _WORDS.sub("_", error.__name__).lower()


def message_of(error: TowpathError) -> str:
    """What is said about an error to whoever asked."""
    return without_password(_valid(str(error)))


def details_of(error: TowpathError) -> dict[str, Any]:
    """What a program needs to know about an error."""
    return {name: getattr(error, attribute) for name, attribute in _DETAILS.get(type(error), {}).items()}


def _after_s(error: TowpathError) -> float:
    given: float = getattr(error, "after_s", getattr(error, "retry_after_s", RETRY_S))
    return given


def _valid(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


def _is_for_programs(request: Request) -> bool:
    """One route beside the pages takes JSON, too."""
    path = request.url.path
    return path.startswith(_FOR_PROGRAMS) or (path == COMPLAINTS and request.method == "POST")
