"""Benchmarks: one harness for all packages, so that all figures are measured, judged and printed alike.

harness     runs a benchmark and its peers, and collects the figures
machine     describes the machine of a run
report      results as JSON and as a table with ratios
ownership   leases, auctions and a fleet on memory, Valkey and etcd
fleet       a gateway and search nodes as processes: overhead, load, many repositories, node loss
ipni        the content index: ingest, finds, a gateway over many indexers
jobs        the job broker and other job queues
registry    memory and speed of the registry
search      queries, index builds and memory, with peer search programs
throttle    cost, fairness and state sharing of the throttle
"""
