"""The store of a shard: changes are visible at once, in order, and become durable in groups."""
