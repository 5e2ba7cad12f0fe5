"""A worked example: a small web is crawled, its documents are extracted and loaded, and it all survives any crash.

`python -m examples.harvest` runs it. `web/` is the web, which knows nothing of the rest. `crawler/` visits it politely
and writes a data set per site. `flows.py` are the two flows on Spark, with `extract.py` as their one function. `parts/`
are the three processes, and `workflow.py` is the actor that calls them one after the other.
"""
