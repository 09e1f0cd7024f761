"""The stores of the query layer: those that know ranges, and the one that spreads over many nodes."""
