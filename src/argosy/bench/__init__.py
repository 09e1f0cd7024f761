"""Benchmarks: one harness for all packages, so that all figures are measured, judged and printed alike.

harness     runs a benchmark and its peers, and collects the figures
machine     the machine and the commit of a run, and the CPU time of a process
processes   starts `argosy serve` processes and waits for what they do
report      results as JSON and as a table with ratios
plot        ratios to the peers as a picture
ownership   leases, auctions and a fleet on memory, Valkey and etcd
fleet       a gateway and search nodes as processes: overhead, load, many repositories, node loss
ipni        the content index: ingest, finds, a gateway over many indexers
jobs        the job broker
registry    memory and speed of the registry
search      queries, index builds and memory
throttle    cost, fairness and state sharing of the throttle

The peers, other products that do the same work, have their adapters in `bench/peers` of a checkout, outside the wheel.
"""
