"""`towpath user`, `key` and `block`: who may use Towpath over HTTP, and what is kept out."""
