"""The end of an upload: stages passed, closing steps."""
