"""Commands for flows, and `run`, `audit`, `trace`."""
