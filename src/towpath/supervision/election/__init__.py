"""Who coordinates; pure."""
