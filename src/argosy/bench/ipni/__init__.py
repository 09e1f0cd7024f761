"""Content index benchmark: publishers that serve chains and indexers that ingest them, as processes on this machine.

run                 the benchmark: what is measured, in which order
figures             figures and their goals
digests             multihashes that every process can compute
chains              advertisements and entries, created before the clock starts
publisher_program   a process that serves chains at little cost
members             starts, awaits and stops the processes
find_load           finds over HTTP: at a steady rate, and as fast as possible
ingest_rate         ingested multihashes, with concurrent finds
find_rate           finds of an indexer restricted to one core
store_rate          the store alone, with other stores as peers
store_program       the processes of `store_rate`
growth              the rate of a large index relative to a small one
gateway_overhead    a gateway over several indexers, one of which stalls and another dies
gateway_program     a process with only that gateway
"""
