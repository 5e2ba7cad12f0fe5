"""Support for tests of programs that use Towpath: real servers and processes, a clock to move, flows to try.

May import every other layer; nothing of Towpath imports it.
"""
