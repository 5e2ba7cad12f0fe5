"""`make chaos-flights`: the flights of three clients at once, while everything that runs is killed at random.

The gateway (which is the outlet, too), the flow's driver, its Java process and its workers, the desk, the peers, and
the clients themselves get SIGKILL, one after the other, as a seed decides. In the end the four answers of each client
equal the oracle's, every line that is no itinerary is one case, and `towpath audit` balances.
"""
