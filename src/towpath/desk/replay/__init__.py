"""Back into flows: outbox, relay, lanes, recall."""
