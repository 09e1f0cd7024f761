"""The HTTP surfaces of an indexer, wire-compatible with IPNI: find, ingest and admin, and the encoders behind them."""
