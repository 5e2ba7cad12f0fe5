"""Support for tests of programs that use Towpath: real servers, started and cleaned up.

May import every other layer; nothing of Towpath imports it.
"""
