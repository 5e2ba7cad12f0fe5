"""Flows, stages and batches at work in a driver. Loads pyspark."""
