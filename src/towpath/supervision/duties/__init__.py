"""What has to run on a host, its launches and their fence."""
