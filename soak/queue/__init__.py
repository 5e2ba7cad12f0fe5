"""The queue under load while its workers are killed and its database goes away: `python -m soak.queue`.

Producers (`producer.py`) send requests and notices and fetch the answers; workers (`worker.py`) handle them; both are
real processes that write down what they did in journals of their own. The drill (`drill.py`) kills one of them every
second, starts it again, and disturbs the database twice (`stores.py`). At the end the books are balanced
(`verdict.py`): journals against the complete tables.
"""
