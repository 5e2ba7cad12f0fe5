"""What the Docker Engine's published interface (version 1.43) says of the operations that are used here.

Facts taken from the Engine's interface definition: methods, paths, parameters, bodies, status codes and answers. Where
the Engine would ignore what it does not know, here it is an error: a misspelt option must not pass in silence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jsonschema_rs

Schema = Mapping[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "integer"}
FLAG: Schema = {"type": "boolean"}
TEXTS: Schema = {"type": "array", "items": TEXT}
WORDS: Schema = {"type": "object", "additionalProperties": TEXT}
# As they stand in a query, where all is text.
FLAG_TEXT: Schema = {"enum": ["true", "false", "1", "0"]}
NUMBER_TEXT: Schema = {"type": "string", "pattern": "^-?[0-9]+$"}
NAME: Schema = {"type": "string", "pattern": "^/?[a-zA-Z0-9][a-zA-Z0-9_.-]+$"}
ID: Schema = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
TIME: Schema = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$"}

ERROR: Schema = {"type": "object", "properties": {"message": TEXT}, "required": ["message"]}


def only(**properties: Schema) -> Schema:
    """An object with these properties and no others."""
    return {"type": "object", "properties": properties, "additionalProperties": False}


def at_least(**properties: Schema) -> Schema:
    """An object with these properties and perhaps others: an engine may add some."""
    return {"type": "object", "properties": properties, "required": list(properties)}


HOST_CONFIG = only(
    AutoRemove=FLAG,
    Binds={"type": "array", "items": {"type": "string", "pattern": r"^(/[^:]*|[a-zA-Z0-9][\w.-]*):/[^:]*(:[\w,]+)?$"}},
    Init={"type": ["boolean", "null"]},
    LogConfig=only(
        Type={"enum": ["json-file", "syslog", "journald", "gelf", "fluentd", "awslogs", "splunk", "etwlogs", "none"]},
        Config=WORDS,
    ),
    Memory={"type": "integer", "minimum": 0},
    MemorySwap={"type": "integer", "minimum": -1},
    NetworkMode=TEXT,
    PidsLimit={"type": ["integer", "null"]},
    RestartPolicy=only(
        Name={"enum": ["", "no", "always", "unless-stopped", "on-failure"]},
        MaximumRetryCount=NUMBER,
    ),
    Ulimits={"type": "array", "items": only(Name=TEXT, Soft=NUMBER, Hard=NUMBER)},
)
CONTAINER_CONFIG = only(
    Cmd=TEXTS,
    Entrypoint=TEXTS,
    Env={"type": "array", "items": {"type": "string", "pattern": "^[^=]+=(.|\n)*$"}},
    HostConfig=HOST_CONFIG,
    Image={"type": "string", "minLength": 1},
    Labels=WORDS,
    OpenStdin=FLAG,
    StopSignal=TEXT,
    Tty=FLAG,
    User=TEXT,
    WorkingDir=TEXT,
)
STATUS: Schema = {"enum": ["created", "running", "paused", "restarting", "removing", "exited", "dead"]}
STATE = at_least(
    Status=STATUS,
    Running=FLAG,
    Paused=FLAG,
    Restarting=FLAG,
    OOMKilled=FLAG,
    Dead=FLAG,
    Pid=NUMBER,
    ExitCode=NUMBER,
    Error=TEXT,
    StartedAt=TIME,
    FinishedAt=TIME,
)
CONTAINER = at_least(
    Id=ID, Created=TIME, Path=TEXT, Args=TEXTS, State=STATE, Image=TEXT, Name=TEXT, Config=CONTAINER_CONFIG
)
SUMMARY = at_least(
    Id=ID, Names=TEXTS, Image=TEXT, ImageID=TEXT, Command=TEXT, Created=NUMBER, State=TEXT, Status=TEXT, Labels=WORDS
)
ENDED = at_least(StatusCode=NUMBER)
EVENT = at_least(
    Type=TEXT, Action=TEXT, Actor=at_least(ID=TEXT, Attributes=WORDS), scope=TEXT, time=NUMBER, timeNano=NUMBER
)
VERSION = at_least(Version=TEXT, ApiVersion=TEXT, MinAPIVersion=TEXT)


@dataclass(frozen=True)
class Operation:
    """One thing that can be asked for."""

    method: str
    path: str
    answers: Mapping[int, Schema | None]
    """By status; none: without a body, or with a stream."""
    query: Mapping[str, Schema] = field(default_factory=dict)
    body: Schema | None = None

    def matches(self, method: str, path: str) -> re.Match[str] | None:
        return re.fullmatch(self.path, path) if method == self.method else None


_AT = "/containers/(?P<container>[^/]+)"
_STOP_QUERY = {"signal": TEXT, "t": NUMBER_TEXT}
_NO_SUCH: Mapping[int, Schema] = {404: ERROR, 500: ERROR}

OPERATIONS = {
    "version": Operation("GET", "/version", {200: VERSION, 500: ERROR}),
    "list": Operation(
        "GET",
        "/containers/json",
        {200: {"type": "array", "items": SUMMARY}, 400: ERROR, 500: ERROR},
        {"all": FLAG_TEXT, "limit": NUMBER_TEXT, "size": FLAG_TEXT, "filters": TEXT},
    ),
    "create": Operation(
        "POST",
        "/containers/create",
        {201: at_least(Id=ID, Warnings=TEXTS), 400: ERROR, 404: ERROR, 409: ERROR, 500: ERROR},
        {"name": NAME, "platform": TEXT},
        CONTAINER_CONFIG,
    ),
    "inspect": Operation("GET", f"{_AT}/json", {200: CONTAINER, **_NO_SUCH}, {"size": FLAG_TEXT}),
    "logs": Operation(
        "GET",
        f"{_AT}/logs",
        {200: None, **_NO_SUCH},
        {
            "follow": FLAG_TEXT,
            "stdout": FLAG_TEXT,
            "stderr": FLAG_TEXT,
            "since": NUMBER_TEXT,
            "until": NUMBER_TEXT,
            "timestamps": FLAG_TEXT,
            "tail": {"type": "string", "pattern": "^(all|[0-9]+)$"},
        },
    ),
    # 400 is not in the definition, but it is what the Engine answers to a program that is not there.
    "start": Operation("POST", f"{_AT}/start", {204: None, 304: None, 400: ERROR, **_NO_SUCH}, {"detachKeys": TEXT}),
    "stop": Operation("POST", f"{_AT}/stop", {204: None, 304: None, **_NO_SUCH}, _STOP_QUERY),
    "kill": Operation("POST", f"{_AT}/kill", {204: None, 409: ERROR, **_NO_SUCH}, {"signal": TEXT}),
    "rename": Operation("POST", f"{_AT}/rename", {204: None, 409: ERROR, **_NO_SUCH}, {"name": NAME}),
    "wait": Operation(
        "POST",
        f"{_AT}/wait",
        {200: ENDED, 400: ERROR, **_NO_SUCH},
        {"condition": {"enum": ["not-running", "next-exit", "removed"]}},
    ),
    "remove": Operation(
        "DELETE",
        _AT,
        {204: None, 400: ERROR, 409: ERROR, **_NO_SUCH},
        {"v": FLAG_TEXT, "force": FLAG_TEXT, "link": FLAG_TEXT},
    ),
    "events": Operation(
        "GET", "/events", {200: None, 400: ERROR, 500: ERROR}, {"since": TEXT, "until": TEXT, "filters": TEXT}
    ),
}
FILTERS: Schema = {"type": "object", "additionalProperties": TEXTS}


def breach(schema: Schema, value: Any) -> str | None:
    """What is wrong with it; none: nothing is."""
    errors = [f"{'/'.join(map(str, error.instance_path))}: {error.message}" for error in _errors(schema, value)]
    return "; ".join(errors) or None


def _errors(schema: Schema, value: Any) -> Any:
    return jsonschema_rs.validator_for(dict(schema)).iter_errors(value)
