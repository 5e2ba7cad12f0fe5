"""Records go back into flows: outbox, relay, lanes, recall."""
