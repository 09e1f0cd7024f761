"""Fleet benchmark: real processes on this machine, a gateway, four nodes and two Valkeys.

run              the benchmark: what is measured, in which order
figures          figures and their goals
fleet_processes  starts, awaits and stops the processes of a fleet
repositories     the repositories: a corpus in twenty parts, and many small ones
query_load       queries over HTTP: sequential, at a steady rate, or as fast as possible
http_load        a minimal HTTP client for load
latency          the gateway's overhead; 200 queries a second; throughput, with ripgrep and zoekt
catalog_import   from `repo import` until every repository is ready, and the commands at the stores
departures       a node is killed under load; a node is drained
"""
