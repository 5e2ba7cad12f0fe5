"""`make bench-supervision`: how soon deaths are noticed and mended, and what watching costs."""
