"""SQL over the rows of a shard: SELECT on `jobs`, `queues`, `tasks`, `tenant_counts` and `queue_counts`.

A statement is first prepared against empty tables, which tells what it reads; those rows are then loaded by the best
index its WHERE allows, and SQLite does the rest. Nothing of the shard can be changed from here.
"""
