"""The mutation check: how many small faults, put into the pure cores one at a time, do their unit tests notice?

`make mutants` makes every fault (`mutations`) in the sources of every core (`cores`), runs the tests of that core on
each in a process of its own (`trial`), and ends with a score for each core. docs/reference/mutation.md has the scores
and says why a program of our own does this.
"""
