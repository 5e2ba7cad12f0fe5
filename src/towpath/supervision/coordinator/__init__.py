"""What is done about dead and missing processes."""
