"""Benchmarks: one harness for every plane, so that all figures are measured, judged and printed alike.

harness     runs a bench beside its peers and says what came out
machine     what the figures were measured on
report      the result as JSON for machines and as a table with ratios for people
servers     a real Valkey and a real etcd on this machine, for benches and tests
ownership   leases, auctions and a fleet on memory, Valkey and etcd
fleet       a front door and search nodes as processes: overhead, load, many repositories, losses
jobs        the job broker beside other job queues
registry    what the registry takes and how fast it is
search      queries, building and memory beside the programs people search code with
"""
