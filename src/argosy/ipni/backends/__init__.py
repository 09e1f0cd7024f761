"""Index stores (RocksDB, memory), the mirror of CAR files, and the usage of the disk."""
