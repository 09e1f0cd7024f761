"""Fleet benchmark: real processes on this machine, a gateway, four nodes and a Valkey.

run              the benchmark: what is measured, in which order
figures          figures and their goals
members          starts, awaits and kills the processes
origins          the repositories: a corpus in twenty parts, and many small ones
query_load       queries over HTTP: sequential, at a steady rate, or as fast as possible
http_load        a minimal HTTP client for load
traffic          counts the commands of a Valkey
overhead         what the gateway adds to a node's response time
load             two hundred queries a second, and maximum throughput; with ripgrep and zoekt
catalog_import   from `repo import` until every repository is ready
node_loss        a node is killed under load
drain            a node hands off its index, compared with building it again
"""
