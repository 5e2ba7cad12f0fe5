"""From the graph of a stage to a Spark job."""
