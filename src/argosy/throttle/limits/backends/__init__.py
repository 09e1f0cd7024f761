"""The stores of buckets: memory, SQLite, Redis, and a remote limiter over HTTP; `factory` selects one by URL."""
