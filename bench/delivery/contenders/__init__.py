"""Who takes part: the process of a route with all its ways, and the drivers of which one is killed."""
