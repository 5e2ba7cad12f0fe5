"""What readers say about documents."""
