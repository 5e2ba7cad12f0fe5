"""Results of uploads: sinks that write them, files, and pages for clients."""
