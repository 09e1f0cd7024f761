"""Search benchmark: queries, index builds and memory, with ripgrep, git grep, csearch and zoekt as peers.

run                the benchmark: what is measured, in which order
figures            figures and their goals
corpus             the corpus: the same files for every program
bench_query        one query, independent of the program that runs it
query_selection    well-known queries and queries drawn from a tree, checked to belong to their class
programs           runs a program and measures CPU and wall time
peers              what a peer has to implement, and whether all programs find the same files
engine             Argosy's engine: queries, index builds, memory
comparison         every query on every program, and the figures that result
server_measures    cold start, cancellation and throughput

The adapters of the peers are in `bench/peers/search.py` and `bench/peers/zoekt.py` of a checkout.
"""
