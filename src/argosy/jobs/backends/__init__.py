"""Where a shard's rows are kept: SlateDB on a folder, on S3 or in memory, and a disk that tests can break."""
