"""What a flow is declared of; no Spark."""
