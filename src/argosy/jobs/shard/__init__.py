"""A shard: the jobs of some tenants. Its queue is in memory, its rows in a store; each transaction changes both.

Reading order: `rows` (values), `queue` and `queue_state` (what is in memory), `txn` (how state and rows change
together), `limit_chain` (limits), `core` (commit); then the calls: `validation`, `enqueue`, `lease_tasks`,
`completion` (how a job ends, retries, dependents), `limit_checks`, `job_reader`, `job_control`, `import_jobs`,
`cron_schedules`; then `recovery` (opening) and `shard` (all of it, served). `audit` checks the invariants JOB-1 to
JOB-3 in tests and simulations.
"""
