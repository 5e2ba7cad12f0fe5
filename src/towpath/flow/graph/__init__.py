"""The declared graph of a flow: nodes, sources, state and stages. Loads no Spark."""
