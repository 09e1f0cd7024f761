"""Chain stores (SQLite, memory), the key file, and the hashing of files."""
