"""The content index as processes on this machine: publishers that serve chains, indexers that take them in.

run                 the bench: what is measured, in which order
figures             the figures and the goals they are judged by
digests             which multihashes there are: everybody can name them without having been told
chains              advertisements and entries, made before the clock runs
publisher_program   a process that serves such chains and costs little
members             the processes: started, waited for, ended
questions           finds over HTTP: at a steady rate, and as fast as they go
ingesting           multihashes taken in, and finds meanwhile
looking             finds by an indexer that has one core
storing             the store alone beside other stores
store_program       what `storing` runs in processes of their own
growing             the rate of a large index beside that of a small one
spreading           a gateway before several indexers, one of which stalls and another dies
gateway_program     a process that is nothing but that gateway
"""
