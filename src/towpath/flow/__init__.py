"""Flows: records from topics, through steps on Spark, into sinks; every failure classified and kept.

May import db, log, queue and spark; not the actors.
"""
