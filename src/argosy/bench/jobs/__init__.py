"""Jobs benchmark: the broker as a process with fsync, with other job queues as peers.

run             the benchmark: what is measured, in which order
figures         figures and their goals
broker          starts and stops the broker process
enqueue_rate    jobs enqueued in batches, by single calls, and one at a time
queue_race      jobs enqueued, leased and completed, by all queues at equal durability
contenders      producer and worker programs of each queue
peers           the environment of the other queues
due_latency     how soon a due job is leased while a thousand workers wait
waiting_jobs    a shard with very many waiting jobs: opening, memory, leasing
schedules       ten thousand minutely schedules of one shard, all due at once
shard_program   the processes of `waiting_jobs` and `schedules`
fairness        one tenant's job next to another tenant's hundred thousand
"""
