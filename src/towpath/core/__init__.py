"""What everything stands on; standard library only, except settings for logs."""
