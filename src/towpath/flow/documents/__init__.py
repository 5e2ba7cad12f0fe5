"""Records as strict JSON text: read them, lay them into typed columns, and write them back with nothing lost."""

from towpath.flow.documents.reader import MAX_DEPTH, Unreadable, read_document, read_documents
from towpath.flow.documents.schema import Schema
from towpath.flow.documents.splice import changes, copied, splice, splice_rows
from towpath.flow.documents.writer import Unwritable, write, write_column

__all__ = [
    "MAX_DEPTH",
    "Schema",
    "Unreadable",
    "Unwritable",
    "changes",
    "copied",
    "read_document",
    "read_documents",
    "splice",
    "splice_rows",
    "write",
    "write_column",
]
