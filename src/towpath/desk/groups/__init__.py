"""Groups: cases of one cause."""
