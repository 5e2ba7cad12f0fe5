"""What `towpath audit --deep` says of the run, asked on the command line as anybody would."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from soak.delivery.flow import FLOW
from soak.delivery.settings import as_toml

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 300
PROVEN = "proven"
_FILE = """from soak.delivery.flow import chain

flow = chain({url!r}, {delivery!r})
"""


def audit(home: Path, sections: dict[str, Any], url: str, delivery: str) -> list[str]:
    """What it finds wrong."""
    config, file = home / "towpath.toml", home / "audited.py"
    config.write_text(as_toml(sections), encoding="utf-8")
    file.write_text(_FILE.format(url=url, delivery=delivery), encoding="utf-8")
    words = ["--config", str(config), "audit", FLOW, "--deep", f"{file}:flow", "--json"]
    command = [sys.executable, "-m", "towpath", *words]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return [f"audit did not end within {TIMEOUT_S} s"]
    if not done.stdout.strip():
        return [f"audit: {done.stderr.strip()[-1000:]}"]
    return [*problems(json.loads(done.stdout)), *([f"audit ended with {done.returncode}"] if done.returncode else [])]


def problems(said: dict[str, Any]) -> list[str]:
    """Of an audit as JSON: all outputs must be proven."""
    found = [f"audit: {each['kind']} in {each['stage']}: {each['found']}" for each in said["problems"]]
    found += [
        f"audit: output {each['output']} is {each['proof']}: {each['why']}"
        for each in said["outputs"]
        if each["proof"] != PROVEN
    ]
    found += [f"audit: cannot prove {each['what']}: {each['why']}" for each in said["not_provable"]]
    return found if said["is_balanced"] or found else ["audit: the flow does not balance"]
