"""Launchers start the processes that have to run, and know how they ended: as subprocesses, or as containers.

A launcher is the hand of the coordinator on one host. It must not matter who calls it, or who died while calling it:

- What is started belongs to nobody's life but its own. It is found again by its launch id, by any process of the host.
- At most one process is ever started for a launch id, however often and by how many `start` is called.
- When a launch is ENDED nothing of it runs any more, what it has started included, and nothing of it ever will.

As a *subprocess* each launch has a home (a directory) and a keeper, a small process that starts it, keeps its output,
ends it when asked, and writes down how it ended. If the keeper dies the process dies with it: a process that nobody
could tell the end of would be worse than one that is started again. In a *container* the Docker Engine does all that.

May import what `towpath.supervision` may. The keeper imports the standard library only, so that it stays small.
"""
