"""Tables of the user's own, as a sink writes them."""
