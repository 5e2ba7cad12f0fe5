"""Commands for queue and events."""
