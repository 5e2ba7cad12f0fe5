"""Block rules: which records are kept out, and why. Below access, because Spark workers and the gateway ask them."""
