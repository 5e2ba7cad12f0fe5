"""Chunks that come compressed: each one is a gzip of its own, and unpacked no larger than a chunk may be."""

from __future__ import annotations

import zlib

from towpath.errors import BadChunk, ChunkTooLarge

_GZIP = 16 + zlib.MAX_WBITS


def unzipped(data: bytes, most_bytes: int) -> bytes:
    """The plain bytes; `BadChunk` if it is no whole gzip, `ChunkTooLarge` as soon as it is more than so many."""
    unzip = zlib.decompressobj(_GZIP)
    try:
        plain = unzip.decompress(data, most_bytes + 1)
    except zlib.error as error:
        raise BadChunk(f"the chunk is not gzip: {error}; send it again, or send it plain") from error
    if len(plain) > most_bytes:
        raise ChunkTooLarge(most_bytes)
    if not unzip.eof:
        raise BadChunk("the gzip of the chunk ends too soon: it was cut on its way; send it again")
    if unzip.unused_data:
        raise BadChunk("something stands behind the gzip of the chunk: a chunk is one gzip and nothing else")
    return plain
