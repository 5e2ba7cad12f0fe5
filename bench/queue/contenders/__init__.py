"""One module per contender, each a program that does one operation and prints one JSON line.

May import the standard library, `contract` and the one library that is measured.
"""
