"""Records as strict JSON text: read them, lay them into typed columns, and write them back with nothing lost.

A value is *read* once (`read_documents`): it is refused unless it is one JSON object as RFC 8259 has it, and every
number in the document is the number that stands in the text. A *schema* (`Schema`) lays documents into Arrow columns
and says which rows do not fit. What a step changed is found by `changes`, and `splice` puts only that into the
original text. Everything here is pure: bytes and values in, bytes and values out. Imports pyspark only where a
schema is turned into Spark's types.
"""

from towpath.flow.documents.reader import MAX_DEPTH, Unreadable, read_document, read_documents
from towpath.flow.documents.schema import Schema
from towpath.flow.documents.splice import changes, copied, splice, splice_rows
from towpath.flow.documents.writer import Unwritable, same_rows, write, write_column

__all__ = [
    "MAX_DEPTH",
    "Schema",
    "Unreadable",
    "Unwritable",
    "changes",
    "copied",
    "read_document",
    "read_documents",
    "same_rows",
    "splice",
    "splice_rows",
    "write",
    "write_column",
]
