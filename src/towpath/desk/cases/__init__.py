"""Cases: model, store with history, pages and bodies."""
