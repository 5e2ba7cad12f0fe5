"""Pages of flows, their audit and traces, and of topics."""
