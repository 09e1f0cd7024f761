"""Index stores: RocksDB on disk, or dictionaries in memory."""
