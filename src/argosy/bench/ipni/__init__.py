"""Content index benchmark: publishers that serve chains and indexers that ingest them, as processes on this machine.

run         the benchmark: what is measured, in which order
figures     figures and their goals
chains      multihashes, advertisements and entries, computed from seeds before the clock starts
programs    the processes of a publisher and of a gateway
processes   starts, awaits and stops the processes
find_load   finds over HTTP: at a steady rate, and as fast as possible
finds       finds of an indexer on one core; a gateway over several indexers, one of which hangs or dies
ingest      ingested multihashes with concurrent finds; the rate of a large index relative to a small one
stores      the store alone, with other stores as peers
"""
