"""Measures what the guarantees of delivery cost, and how soon a killed stage goes on. Run by `make bench-delivery`.

What differs by ten per cent is not told apart in two processes that differ by as much. So a route (from where, to
where, with which steps) is one process with one warm Spark, and all that is compared on it takes turns there: same
data, same topic, same Java. The clock is Spark's own, the same for everybody, with or without Towpath: from when
it knows what the first batch may read to the end of the last one. After each turn, outside the clock, the outputs are
counted.
"""
