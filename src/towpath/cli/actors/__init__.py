"""Commands for actors."""
