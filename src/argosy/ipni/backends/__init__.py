"""Where the content index is kept: RocksDB in a folder, or dictionaries in memory."""
