"""The data: airports of the real world, and itineraries that a seed decides. Knows nothing of Towpath."""
