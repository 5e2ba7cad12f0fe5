"""Who takes part: each a program that is started with its settings as JSON."""
