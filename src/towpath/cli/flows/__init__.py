"""`towpath flow`, `run`, `audit` and `trace`: flows, and where their records are."""
