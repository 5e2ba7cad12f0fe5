"""Rules that decide about errors."""
