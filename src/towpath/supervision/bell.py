"""The bell that wakes the coordinator: something about a duty has changed."""

BELL = "supervision"
