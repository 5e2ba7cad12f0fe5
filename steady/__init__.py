"""`make steady`: the tests that need real time, processes and signals, again and again on a machine that is in trouble.

Each round keeps all cores busy, makes each fsync 200 ms slower, and stops processes of the tests for 3 s at random. A
test that fails here measures how fast the machine is, or has found a race.

    plan       what a seed decides: the strikes, and whom each of them hits
    preload    the library (`delay.c`) that delays, and what it counts
    stopper    the process that strikes, and its guardian, which continues all that is stopped when the stopper dies
    recorder   the pytest plugin that notes how each test ended
    round      one round from start to end
    book       what all rounds have come to, kept between two sittings
"""
