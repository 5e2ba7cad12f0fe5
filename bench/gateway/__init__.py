"""`make bench-gateway`: how fast clients get data in, how fairly they share, and flights beside a plain Spark job."""
