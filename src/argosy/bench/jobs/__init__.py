"""The job broker as a process on this machine, its jobs in a folder with fsync, and other job queues beside it.

run             the bench: what is measured, in which order
figures         the figures and the goals they are judged by
broker          the process: started, waited for, ended
enqueueing      jobs put through batches, through single calls, and one at a time
racing          jobs put, leased and completed, by us and by others at equal durability
contenders      the programs that race, each with a producer and a worker
peers           the environment in which the others live
polling         how soon a due job is leased while a thousand workers wait
waiting         a shard with very many waiting jobs: opening, memory, leasing
schedules       ten thousand minutely schedules of one shard, all due at once
shard_program   what `waiting` and `schedules` run in processes of their own
fairness        a tenant's job beside another tenant's hundred thousand
"""
