"""The deterministic world: the real shells on a simulated network, clocks and store, all from one seed."""
