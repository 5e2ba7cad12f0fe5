"""Cases, their store, pages, history and bodies."""
