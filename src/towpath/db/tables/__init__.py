"""Tables of the user's own, as the table sink writes them, with the marks that make that exactly once."""
