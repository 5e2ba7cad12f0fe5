"""Where flows write to: files, an index, tables and topics, one folder each. Your own: docs/how-to/own-sink.md."""

from towpath.flow.sinks.sink import Deliveries, Refusal, Sink, Writer
from towpath.flow.sinks.template import Template

__all__ = ["Deliveries", "Refusal", "Sink", "Template", "Writer"]
