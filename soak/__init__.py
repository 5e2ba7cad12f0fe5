"""Long runs under faults. Programs, not tests: each prints what it saw and exits 1 when a promise did not hold."""
