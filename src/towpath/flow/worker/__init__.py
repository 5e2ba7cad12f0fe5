"""What runs inside Spark's Python workers: Arrow batches in, Arrow batches or deliveries out, failures to a report.

Nothing here knows Spark, except for the number of the task; so all of it is tested without a cluster.
"""
