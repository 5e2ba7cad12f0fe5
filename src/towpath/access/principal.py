"""In whose name a request is made, and what that person may do by the way they came."""

from __future__ import annotations

from dataclasses import dataclass

from towpath.access.role import SCOPES, Role, Scope
from towpath.errors import NotAllowed


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who was recognised."""

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
