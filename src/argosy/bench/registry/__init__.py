"""What the registry takes and how fast it is: memory and upserts on Valkey, durable claims on SQLite.

run         the bench: which figures, with which goals
memory      the representative registry, as we lay it out and as a hash per row
upserts     rows written to Valkey by fifty callers, beside a plain client
claims      jobs claimed from a file, each on the disk before it is answered
"""
