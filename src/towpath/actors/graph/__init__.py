"""The shape of an actor, laid out and drawn."""
