"""Registry benchmark: memory and upserts on Valkey, durable claims on SQLite.

run         the benchmark: figures and their goals
memory      the sample data set, in Argosy's layout and as one hash per row
upserts     rows written to Valkey by fifty callers, with a plain client as peer
claims      jobs claimed from a file, each durable before the response
"""
