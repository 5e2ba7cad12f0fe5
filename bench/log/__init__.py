"""The log on SQLite and on Kafka, alone and read by Spark: `python -m bench.log`.

Peers run in the same process and the same run: plain confluent-kafka for our Kafka log, Spark's Kafka source for our
SQLite source. What is compared takes turns, and who comes first alternates from round to round.
"""
