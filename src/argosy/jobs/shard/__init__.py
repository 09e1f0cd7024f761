"""A shard: the jobs of some tenants. Its queue is in memory, its rows in a store; each transaction changes both.

Reading order: `queue`, `slots`, `lease_table` (parts of the queue state), `queue_state`, `txn` (how state and rows
change together), `limit_chain` (limits), `core` (commit); then the calls: `validation`, `enqueue`, `lease_tasks`,
`report`, `completion`, `job_control`, `job_queries`, `job_reader`, `import_jobs`, `limit_checks`, `limit_refresh`,
`dependencies`, `cron_schedules`, `retention`; then `recovery` (opening) and `shard` (all of it, served). `audit` checks
the invariants JOB-1 to JOB-3 in tests and simulations.
"""
