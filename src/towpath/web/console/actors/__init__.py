"""Pages of actors and workflows."""
