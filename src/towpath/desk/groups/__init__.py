"""Cases of one cause."""
