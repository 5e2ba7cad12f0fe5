"""State in a stage: what depends on records of earlier batches. It stands directly on the sources, before any step.

One operator of Spark's (`transformWithState`, RocksDB) keeps the state in the checkpoint, one version for each batch. A
batch that is tried again begins with the version before it, so all that is done here must give the same each time: rows
are taken in the order of topic, partition and offset, and the time is that of the batch, not of the machine.

Spark would call Python once for each key, which costs about a millisecond, and give it one row at a time, at 50
microseconds. So records are put into packets first: each task sorts its records into `SHARDS` shards by the hash of
their keys and gives one packet, an Arrow stream, for each shard. The operator is keyed by shard, has the state of all
keys of a shard as one value, and gives a packet back; behind it packets become records again. A record comes out as it
went in, with one more column, `_verdict`, that says what became of it; every record comes out, so that reading them
counts every one.

What a keeper decides is pure: state and record in, verdict out.
"""

from towpath.flow.graph.stateful_nodes import Dedupe, field, header, key

__all__ = ["Dedupe", "field", "header", "key"]
