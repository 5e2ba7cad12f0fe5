"""`towpath data-set` and `complaint`: what runs have made, and what readers say about it."""
