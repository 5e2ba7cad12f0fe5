"""Who may do what: users with roles, API keys with scopes, and the trail of what was done in whose name.

May import `db` and the core. Three rules:

1. No secret is kept or shown: passwords and keys are stored as what they hash to, a key is shown once, when it is made.
2. Whoever is refused learns nothing from it: an unknown name, a wrong password and a disabled user get the same answer,
   after the same work.
3. A change that somebody asks for has its row in the trail before it begins (`begun`), and the transaction that makes
   the change also moves that row to `done` and, where there is an idempotency key, its request to `made`
   (`changes.py`). So after a crash nobody has to guess whether it was made.
"""

from towpath.access.keys import ApiKey
from towpath.access.roles import Principal, Role, Scope
from towpath.access.service import AccessService
from towpath.access.users import User

__all__ = ["AccessService", "ApiKey", "Principal", "Role", "Scope", "User"]
