"""Spark and Java on this machine: which Java, which jars, and the one place that builds a session.

May import the core only. pyspark itself is imported when a session is built, never when this package is.
"""
