"""Who takes part: Towpath, DBOS, and hosts of which one is killed."""
