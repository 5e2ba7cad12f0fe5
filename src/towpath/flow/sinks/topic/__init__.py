"""Topics as a sink."""
