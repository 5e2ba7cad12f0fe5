"""Three stages on Kafka and PostgreSQL while everything that they need is killed: `python -m soak.delivery`.

A producer (`producer.py`) sends numbered records. A driver (`driver.py`) runs the flow (`flow.py`), a second one stands
by (`drivers.py`). The reaper (`reaper.py`) kills drivers, workers and servers in the order that the seed gives
(`plan.py`), and lets a driver sleep until another has its place. When all is read, what is there (`found.py`, by plain
clients) is compared with what the source holds (`verdict.py`), and `towpath audit --deep` has to agree.
"""
