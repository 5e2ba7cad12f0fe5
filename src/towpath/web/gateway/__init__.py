"""The gateway over HTTP: uploads and their results."""
