"""`towpath send`, `receive` and `upload`: files to a gateway, results from it, and uploads for operators."""
