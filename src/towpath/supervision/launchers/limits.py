"""Limits of a process, as the kernel takes them. Imports the standard library only, since the keeper does."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Mapping

MB = 1 << 20
CPU_GRACE_S = 5  # between the signal that can be caught and the one that cannot

# Of memory: what it has taken, not what it has only put its name on, of which a Java takes gigabytes.
_KINDS = {
    "memory_mb": (resource.RLIMIT_DATA, MB, 0),
    "cpu_s": (resource.RLIMIT_CPU, 1, CPU_GRACE_S),
    "open_files": (resource.RLIMIT_NOFILE, 1, 0),
    "processes": (resource.RLIMIT_NPROC, 1, 0),
}


def kernel_limits(limits: Mapping[str, int | None]) -> list[tuple[int, tuple[int, int]]]:
    """What is to be set. Raises `ValueError` for what this user may not have."""
    return list(_kernel_limits(limits))


def _kernel_limits(limits: Mapping[str, int | None]) -> Iterator[tuple[int, tuple[int, int]]]:
    for name, value in limits.items():
        if value is None:
            continue
        kind, unit, more = _KINDS[name]
        soft, highest = value * unit, resource.getrlimit(kind)[1]
        if highest != resource.RLIM_INFINITY and soft > highest and os.geteuid() != 0:
            raise ValueError(f"limit {name} = {value} is more than this user may have: {highest // unit}")
        hard = soft + more
        if highest != resource.RLIM_INFINITY and os.geteuid() != 0:
            hard = min(hard, highest)
        yield kind, (soft, hard)
