"""`towpath init`, `schema`, `doctor`, `maintenance` and `notify`: setting a machine up and keeping it in order."""
