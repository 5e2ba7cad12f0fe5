"""`towpath up`, `down`, `status`, `process`, `peer` and `deploy`: what has to run, and whether it does."""
