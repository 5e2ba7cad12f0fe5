"""The lease of processes in tests.

No standstill of the machine ends it. Where a lease has to run out, a test moves the clocks (`quiet.let_die`), and a
process of this machine that has exited is declared dead at once.
"""

from __future__ import annotations

LONG_LEASE_S = 600.0
LONG_LEASE = {"heartbeat_s": 0.2, "lease_s": LONG_LEASE_S}
