"""Commands for topics."""
