"""Ten million records through a flow on a real broker: what the driver holds in memory must not grow with them.

`python -m soak.flow`. A producer of its own fills the topic; the flow runs in this process, and at every million its
memory is measured: what this process has resident, and what is alive in its Java heap after a collection.
"""
