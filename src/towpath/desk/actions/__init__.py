"""What people do to cases, one by one or as bulk jobs."""
