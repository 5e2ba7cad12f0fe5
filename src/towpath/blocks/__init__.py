"""Block rules; below access, because workers and the gateway ask them."""
