"""Which scopes each role has: what the tests expect, written down once more and not taken from the code."""

from __future__ import annotations

VIEWER = {"read", "metrics", "gateway:send", "gateway:receive"}
OPERATOR = VIEWER | {
    "desk:write",
    "policy:write",
    "flow:write",
    "queue:write",
    "actor:write",
    "process:write",
    "data:write",
}
MAY = {"viewer": VIEWER, "operator": OPERATOR, "admin": OPERATOR | {"admin"}}
