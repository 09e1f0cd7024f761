"""How fast code is found, beside the programs people use for it: ripgrep, git grep, csearch and zoekt.

run         the bench: what is measured, in which order
figures     the figures and the goals they are judged by
background  what a reader must know to judge them
corpus      the text that everybody searches: the same files for all
asking      one question, as each program has to be asked it
sets        questions about two well-known trees
drawing     questions drawn from any tree, and the check that a question belongs to its class
programs    runs a program and tells its CPU and wall time
peers       ripgrep, git grep and csearch, and who is absent
zoekt       a resident zoekt, asked over HTTP
engine      our own engine, asked the same
contest     everybody asked in turn; what came out of it
telling     the figures that come out of it
building    how fast an index is built and what it weighs
serving     cold start, cancellation and throughput
agreement   whether all find the same files
"""
