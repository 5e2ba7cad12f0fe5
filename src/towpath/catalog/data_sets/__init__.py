"""Data sets: what runs have made, where each is and what it was made from."""
