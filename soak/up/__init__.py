"""`make chaos-up`: everything that `towpath up` keeps running, while half of it is killed every 10 to 20 seconds.

A flow with an error desk and replays, and actors, run on three peers. Every strike kills half of all processes, peers
included; one peer is spared. In the end everything has to be up again, each record in exactly one place, and each
actor's run at its end. What is sent and what was found is compared here, record by record, beside `towpath audit`.
"""
