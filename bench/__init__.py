"""What belongs to the benchmarks and not to the wheel: the adapters of the peers, and the kept results."""
