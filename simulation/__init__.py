"""A deterministic simulator of supervision: `make simulate`.

The election (`towpath.supervision.election.election`), the tenure of the term and the watch over duties are the
product's own code. Clock, network, database, launcher and the processes are simulated here, with every fault that they
can have; one random number generator decides about all of it, so that a seed replays a run exactly.

`run.py` is one run: faults, healing, and then deaths in quiet times. `checks.py` holds what must never happen and what
must happen in time. `twins.py` has the two broken twins that the checks must catch, or they would prove nothing.
"""
