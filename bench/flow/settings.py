"""What all contenders share, so that the same is compared."""

MASTER = "local[2]"
MEMORY = "2g"
CHUNK = 5_000  # documents in a bulk request
MAX_BATCH_RECORDS = 200_000  # in a batch of Spark
