"""`towpath desk` and `lane`: what has failed in flows, and what is done about it."""
