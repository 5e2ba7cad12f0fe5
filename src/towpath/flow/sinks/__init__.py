"""Where flows write to: an index, tables, topics and files. `sink.py` says what a sink is; each kind has a folder.

A sink of your own is made of what this package exports: docs/how-to/own-sink.md.
"""

from towpath.flow.sinks.sink import Deliveries, Refusal, Sink, Writer
from towpath.flow.sinks.template import Template

__all__ = ["Deliveries", "Refusal", "Sink", "Template", "Writer"]
