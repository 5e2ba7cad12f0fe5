"""Pages of flows and topics."""
