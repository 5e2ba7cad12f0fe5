"""What every other package stands on. Standard library and errors only, except settings for logs."""
