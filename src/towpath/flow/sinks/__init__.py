"""Where flows write to: an index, tables, topics and files. `sink.py` says what a sink is, the others are one each."""
