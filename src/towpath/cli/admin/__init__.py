"""`init`, `schema`, `doctor`, `maintenance`, `notify`."""
