"""Topics as DataFrames: `read_batch` and `read_stream`. They load pyspark, so both are loaded when first asked for."""

import typing
from typing import Any

if typing.TYPE_CHECKING:
    from towpath.log.spark.source import read_batch, read_stream

__all__ = ["read_batch", "read_stream"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'towpath.log.spark' has no attribute {name!r}")
    from towpath.log.spark import source

    return getattr(source, name)
