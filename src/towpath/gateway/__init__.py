"""The gateway: data of clients comes in by uploads, and results go out to them.

A client opens an *upload* for a stream, and its *senders* send the lines of the stream's inputs in chunks; each line
becomes one record of a topic. A client can be cut off anywhere, and so can any of the processes that serve it: what
was acknowledged is in the log, and what is sent again is taken once. docs/explanation/boundary.md has the algorithm.
"""
