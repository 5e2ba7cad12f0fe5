"""Sockets, peers and pings."""
