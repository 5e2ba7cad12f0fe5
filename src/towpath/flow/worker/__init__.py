"""What runs inside Spark's Python workers: Arrow batches in, Arrow batches or deliveries out, failures to a report.

Nothing here knows Spark, except for the number of the task; so all of it is tested without a cluster.

A *segment* is a run of work in Python between two parts of a plan that stay in the JVM. It begins by reading records or
columns (`reading`), calls the functions of `each` steps (`calling`), and ends by giving columns back, by preparing
deliveries (`preparing`), or by loading them (`loading`). Between these, rows travel in a `Chunk`. An input that fails
leaves the chunk with all its rows and is written to the segment's `Report`, a pair of files that the driver reads.
"""
