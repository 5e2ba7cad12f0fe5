"""Results of uploads."""
