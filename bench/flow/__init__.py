"""Measures flows from Kafka to Elasticsearch beside the ways in which others do it. Run by `make bench-flow`.

Every contender is a process of its own, which says when it is ready, begins when it is told to, and is watched from
outside: its rate is what Elasticsearch has indexed. So all of them are measured by the same clock.
"""
