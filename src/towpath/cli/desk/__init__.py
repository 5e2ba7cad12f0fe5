"""Commands for the desk and lanes."""
