"""What this machine has and lacks (`doctor`), and what can be cleaned (`maintenance`)."""
