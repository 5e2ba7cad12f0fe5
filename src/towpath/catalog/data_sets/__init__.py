"""What runs have made."""
