"""Roles of users, scopes of keys, which scopes a role has, and the principal in whose name a request is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from towpath.errors import BadValue, NotAllowed


class Role(StrEnum):
    """What a user may do. Each may do all that the one before may."""

    VIEWER = "viewer"  # look at everything but access itself, and send uploads of their own
    OPERATOR = "operator"  # and work: edit, replay, abandon, change policies
    ADMIN = "admin"  # and say who may do what


class Scope(StrEnum):
    """What a key may be used for."""

    READ = "read"  # look at everything but access itself
    METRICS = "metrics"  # read the metrics, and nothing else
    DESK_WRITE = "desk:write"  # change cases and groups, run bulk jobs
    POLICY_WRITE = "policy:write"  # change what becomes of errors, and what is not taken at all
    FLOW_WRITE = "flow:write"  # pause, resume, stop and reset flows
    QUEUE_WRITE = "queue:write"  # send, answer, edit and move messages
    ACTOR_WRITE = "actor:write"  # start, abort, enable and schedule actors
    PROCESS_WRITE = "process:write"  # stop and restart processes, clean up
    DATA_WRITE = "data:write"  # delete data sets, act on complaints
    GATEWAY_SEND = "gateway:send"  # open uploads of one's own and send their data
    GATEWAY_RECEIVE = "gateway:receive"  # read the results of one's own uploads
    ADMIN = "admin"  # users, keys and the trail


# Whoever sends data needs no say in anything else: a key for the gateway can belong to any user.
_VIEWER = frozenset({Scope.READ, Scope.METRICS, Scope.GATEWAY_SEND, Scope.GATEWAY_RECEIVE})
_OPERATOR = _VIEWER | {
    Scope.DESK_WRITE,
    Scope.POLICY_WRITE,
    Scope.FLOW_WRITE,
    Scope.QUEUE_WRITE,
    Scope.ACTOR_WRITE,
    Scope.PROCESS_WRITE,
    Scope.DATA_WRITE,
}
SCOPES: Mapping[Role, frozenset[Scope]] = {
    Role.VIEWER: _VIEWER,
    Role.OPERATOR: _OPERATOR,
    Role.ADMIN: _OPERATOR | {Scope.ADMIN},
}


def check_role(text: str) -> Role:
    """The role of that name, or `BadValue`."""
    try:
        return Role(text)
    except ValueError:
        raise BadValue(f"{text!r} is not a role; there are: {', '.join(Role)}") from None


def check_scopes(texts: Iterable[str], role: Role) -> tuple[Scope, ...]:
    """The scopes of those names, in their order, if a user of that role may have them."""
    wanted = set(texts)
    unknown = sorted(wanted - set(Scope))
    if unknown or not wanted:
        raise BadValue(f"{', '.join(unknown) or 'nothing'} is not a scope; there are: {', '.join(Scope)}")
    scopes = tuple(scope for scope in Scope if scope in wanted)
    beyond = [scope for scope in scopes if scope not in SCOPES[role]]
    if beyond:
        raise BadValue(f"{role} users cannot have keys with the scope {', '.join(beyond)}")
    return scopes


@dataclass(frozen=True, slots=True)
class Principal:
    """The authenticated caller of a request, and what it may do."""

    name: str
    role: Role
    scopes: frozenset[Scope]
    by: str  # how: `key:<id>` or `session:<id>`

    def check(self, *scopes: Scope) -> None:
        """Go on if one of these is allowed; `NotAllowed` otherwise."""
        if not self.scopes.isdisjoint(scopes):
            return
        if not SCOPES[self.role].isdisjoint(scopes):
            raise NotAllowed(f"this needs a key with the scope {' or '.join(scopes)}")
        least = next(role for role in Role if not SCOPES[role].isdisjoint(scopes))
        raise NotAllowed(f"this needs the role {least}; {self.name} is {self.role}")
