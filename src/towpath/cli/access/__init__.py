"""Commands for users, keys and block rules."""
