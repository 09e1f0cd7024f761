"""Jobs benchmark: the broker as a process with fsync, with other job queues as peers.

run             the benchmark: what is measured, in which order
figures         figures and their goals
broker          starts and stops the broker process
enqueue_rate    jobs enqueued in batches, by single calls, and one at a time
queue_race      jobs enqueued, leased and completed, by all queues at equal durability
race_program    the processes of the race, and Argosy's own
start_latency   how soon a job starts: among a thousand waiting workers, and beside a noisy tenant
large_shard     a shard with very many waiting jobs or schedules
shard_program   the process of `large_shard`
"""
