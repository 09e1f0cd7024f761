"""SQL over the rows of a shard: SELECT on `jobs`, `queues`, `tasks`, `tenant_counts` and `queue_counts`.

A statement is first prepared against empty tables, which shows what it reads; those rows are then loaded by the best
index that its WHERE allows, and SQLite does the rest. Statements cannot change anything. silo embeds DataFusion; here
it is SQLite, which is part of Python, with DataFusion's functions on lists and maps added.

Reading order: `tables`, `pushdown` (which index a WHERE allows), `table_loader`, `engine`.
"""
