"""`up`, `down`, `status`, `process`, `peer`, `deploy`."""
