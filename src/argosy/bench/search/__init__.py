"""Search benchmark: queries, index builds and memory, with ripgrep, git grep, csearch and zoekt as peers.

run               the benchmark: what is measured, in which order
figures           figures and their goals
background        notes that a reader needs to judge the figures
corpus            the corpus: the same files for every program
bench_query       one query, as each program takes it
query_sets        queries for two well-known trees
query_sampler     queries drawn from any tree, checked to belong to their class
programs          runs a program and measures CPU and wall time
peers             ripgrep, git grep and csearch
zoekt             a resident zoekt, queried over HTTP
engine            Argosy's engine
contest           all programs in turn, and their results
latency_figures   figures derived from a contest
index_build       build speed and memory of an index
server_measures   cold start, cancellation and throughput
agreement         whether all programs find the same files
"""
