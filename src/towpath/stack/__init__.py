"""Servers that Towpath starts on this machine, without Docker, for trying things out, demos, tests and benchmarks."""
