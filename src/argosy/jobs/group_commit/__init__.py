"""The ledger under a shard: changes count at once for this process, in order, and for good once they are durable."""
