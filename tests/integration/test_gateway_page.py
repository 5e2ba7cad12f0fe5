"""The page about the protocol: its commands are run against a server, its error codes are those that there are."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

from tests.support.gateway_server import serving
from tests.unit.test_docs import DOCS

from towpath import errors
from towpath.web.failures import code_of, status_of

PAGE = DOCS / "reference" / "gateway.md"
TEXT = PAGE.read_text(encoding="utf-8")
TIMEOUT_S = 60
ANSWERED_BY_THE_FRAME = {("400", "cut_off"), ("408", "request_timeout"), ("415", "unsupported_media_type")}


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


def test_the_commands_of_the_page(tmp_path: Path) -> None:
    [stream] = blocks("toml")
    config = tmp_path / "towpath.toml"
    database = f'[database]\nurl = "sqlite:///{tmp_path}/towpath.db"\n'
    config.write_text(f'{database}\n[gateway]\ndirectory = "{tmp_path}/uploads"\n\n{stream}', encoding="utf-8")
    commands = [line.removeprefix("$ ") for block in blocks("console") for line in block.splitlines()]
    assert len(commands) > 12
    with serving(config) as (address, _):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TOWPATH_")}
        environment |= {"SERVER": address, "PATH": f"{Path(sys.executable).parent}:{environment['PATH']}"}
        script = "\n".join(["set -euo pipefail", *(f"{command}; echo" for command in commands)])
        options = {"capture_output": True, "text": True, "timeout": TIMEOUT_S, "check": False}
        done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    taken = {"position", "line", "sequence", "refused", "crc32", "next_bytes"}
    first, second = (answer for answer in answers if set(answer) == taken)
    [shown] = [json.loads(block) for block in blocks("json")]
    assert first == shown
    assert (second["position"], second["refused"]) == (84, 1)
    data = (tmp_path / "part-1").read_bytes()[:38]
    assert first["crc32"] == zlib.crc32(data)
    aborted = answers[-1]  # or it was closed before the command came
    assert aborted.get("state") == "aborted" or aborted["error"]["code"] == "illegal_upload_move"


def test_the_errors_of_the_page_are_those_there_are() -> None:
    table = TEXT.split("## Errors")[1].split("## Limits")[0]
    rows = re.findall(r"^\| ([\d, ]+) \| (.+?) \|", table, re.MULTILINE)
    named = {(status, code) for statuses, codes in rows for status, code in pairs(statuses, codes)}
    known: dict[str, Any] = {code_of(kind): kind for _, kind in inspect.getmembers(errors, inspect.isclass)}
    for status, code in named - ANSWERED_BY_THE_FRAME - {("422", "not_valid")}:
        kind = known[code]
        assert str(status_of(kind.__new__(kind))) == status, code
    assert len(named) > 20


def pairs(statuses: str, codes: str) -> list[tuple[str, str]]:
    found = re.findall(r"`(\w+)`", codes)
    each = statuses.split(", ")
    return list(zip(each, found, strict=True)) if len(each) > 1 else [(each[0], code) for code in found]
