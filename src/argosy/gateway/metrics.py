"""What the front door measures."""

from argosy.base.metrics import counter, gauge, histogram

QUERIES = counter("argosy_gateway_queries", "queries answered, by how they ended", ("outcome",))
QUERY_SECONDS = histogram("argosy_gateway_query_seconds", "how long queries took, from the cache or from nodes")
QUESTIONS = counter("argosy_gateway_questions", "questions put to nodes, by how they ended", ("address", "outcome"))
NODE_SECONDS = histogram("argosy_gateway_node_seconds", "how long nodes took to answer", labels=("address",))
HEDGES = counter("argosy_gateway_hedges", "second questions, asked because a first one was late")
BREAKER_OPEN = gauge("argosy_gateway_breaker_open", "1 while a node that kept failing is left alone", ("address",))
CACHE = counter("argosy_gateway_cache", "queries by where their answer came from: cache, shared, nodes", ("source",))
CACHE_BYTES = gauge("argosy_gateway_cache_bytes", "memory that kept answers take, about")
MISSING = counter("argosy_gateway_missing", "repositories missing in answers, by reason", ("reason",))
IN_FLIGHT = gauge("argosy_gateway_in_flight", "queries that are with nodes just now")
