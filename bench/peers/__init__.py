"""Peers of the benchmarks: other products that do the same work, and the plain code that most people would write.

Each module has the adapters of one benchmark and is loaded by `argosy bench NAME` in a checkout. None of this is in the
wheel: it needs programs and packages that no installation of Argosy has.

environment   a virtual environment for packages that cannot be installed beside Argosy's
ipni          key-value stores: RocksDB, SQLite, LMDB
job_queues    the processes of arq, Celery, Dramatiq and RQ
jobs          those queues as peers of the job broker
ownership     locks and transactions on the same server
registry      the same rows as plain hashes, and claims with one commit each
search        ripgrep, git grep and csearch
throttle      token-bucket and limits
zoekt         a resident zoekt
"""
