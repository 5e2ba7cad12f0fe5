"""Who may do what: users with roles, API keys with scopes, and the audit trail of changes made in their names."""

from towpath.access.keys import ApiKey
from towpath.access.roles import Principal, Role, Scope
from towpath.access.service import AccessService
from towpath.access.users import User

__all__ = ["AccessService", "ApiKey", "Principal", "Role", "Scope", "User"]
