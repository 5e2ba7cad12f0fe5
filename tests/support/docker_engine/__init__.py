"""A small server that speaks the HTTP interface of the Docker Engine, for machines that have none.

It takes only what the Engine's published interface describes (`interface.py`), and answers only that; whatever breaks
the rules is refused and remembered. What a container is to run it really runs, as a process of this machine: there are
no images, no file systems and no networks of its own.
"""
