"""The shape of an actor, drawn."""
